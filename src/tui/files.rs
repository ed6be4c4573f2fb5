//! Looking at the file system for the library. Everything here may block and runs off the studio's thread.

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use super::{Msg, model::library::Found, scan::scan, text};
use crate::speculate::Method;

/// What is known of a file without opening it; none where there is none.
pub(crate) fn found(path: &Path) -> Option<Found> {
    let facts = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    Some(Found { path: path.into(), bytes: Some(facts.len()), modified: facts.modified().ok() })
}

/// What a typed or pasted path is.
pub(crate) fn open(typed: &str) -> Msg {
    let path = expand(typed, std::env::var_os("HOME").map(PathBuf::from));
    let shown = text::clean_line(&path.to_string_lossy());
    let path = std::path::absolute(&path).unwrap_or(path);
    match std::fs::metadata(&path) {
        Ok(facts) if facts.is_dir() => scan(path),
        Ok(_) => match found(&path) {
            Some(file) => Msg::Opened(Ok(file)),
            None => Msg::Opened(Err(format!("{shown} is neither a file nor a folder"))),
        },
        Err(error) => Msg::Opened(Err(format!("cannot open {shown}: {}", plain(&error)))),
    }
}

/// What the system says, without its number.
pub(crate) fn plain(error: &std::io::Error) -> String {
    let words = error.to_string();
    words.split(" (os error").next().unwrap_or_default().to_owned()
}

/// Keep a method as a file of its own; one that is there is left alone.
pub(crate) fn save_method(file: PathBuf, method: Method) -> Result<(PathBuf, Method), String> {
    let shown = text::clean_line(&file.to_string_lossy());
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder).map_err(|e| format!("cannot make the folder of {shown}: {e}"))?;
    }
    let write = || {
        let mut new = std::fs::OpenOptions::new().write(true).create_new(true).open(&file)?;
        new.write_all(method.to_toml().as_bytes())
    };
    match write() {
        Ok(()) => Ok((file, method)),
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {
            Err(format!("{shown} is there already: choose another name"))
        }
        Err(e) => Err(format!("cannot write {shown}: {e}")),
    }
}

/// Write a text to a new file of this name here; where there is one, to `name-2` and so on.
pub(crate) fn write_new(name: &str, text: &str) -> Result<PathBuf, String> {
    let (stem, ending) = name.rsplit_once('.').unwrap_or((name, "txt"));
    for n in 1..1000 {
        let more = if n > 1 { format!("-{n}") } else { String::new() };
        let file = PathBuf::from(format!("{stem}{more}.{ending}"));
        match std::fs::OpenOptions::new().write(true).create_new(true).open(&file) {
            Ok(mut new) => {
                return match new.write_all(text.as_bytes()) {
                    Ok(()) => Ok(file),
                    Err(e) => Err(format!("cannot write {}: {e}", file.display())),
                };
            }
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(format!("cannot write {}: {e}", file.display())),
        }
    }
    Err(format!("there are too many files like {name} here"))
}

/// Let the user edit a text in the editor of $VISUAL or $EDITOR, and take it back. The terminal is the editor's meanwhile.
pub(crate) fn edit(text: &str) -> Result<String, String> {
    let chosen = ["VISUAL", "EDITOR"].into_iter().find_map(|name| std::env::var(name).ok());
    let command = chosen.filter(|c| !c.trim().is_empty()).unwrap_or_else(|| "vi".into());
    let file = std::env::temp_dir().join(format!("specreel-prompt-{}.md", std::process::id()));
    let trouble = |e: std::io::Error| format!("cannot edit {}: {e}", file.display());
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    std::fs::remove_file(&file).ok();
    options.open(&file).and_then(|mut new| new.write_all(text.as_bytes())).map_err(trouble)?;
    let mut words = command.split_whitespace();
    let program = words.next().unwrap_or("vi");
    let mut editor = std::process::Command::new(program);
    editor.args(words).arg(&file);
    // Standard error goes to the log while the studio runs; an editor may want to talk there.
    if let Ok(tty) = std::fs::OpenOptions::new().write(true).open("/dev/tty") {
        editor.stderr(tty);
    }
    let ended = editor.status().map_err(|e| format!("cannot run the editor {program}: {e}"));
    let edited = std::fs::read_to_string(&file).map_err(trouble);
    std::fs::remove_file(&file).ok();
    match ended? {
        status if status.success() => edited,
        status => Err(format!("the editor {program} gave up ({status}); the prompt is as it was")),
    }
}

/// `~` at the beginning is the user's own folder.
pub(crate) fn expand(typed: &str, home: Option<PathBuf>) -> PathBuf {
    match (typed.strip_prefix("~/").or((typed == "~").then_some("")), home) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => PathBuf::from(typed),
    }
}

/// Put a file in its place as a whole, readable by the user alone: what somebody watches and asks is nobody else's business.
///
/// # Errors
/// The system does not write it; what was there before is still there.
pub(crate) fn replace_private(file: &Path, bytes: &[u8]) -> std::io::Result<()> {
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let beside = file.with_extension(format!("{}.new", std::process::id()));
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let written = options.open(&beside).and_then(|mut new| {
        new.write_all(bytes)?;
        new.sync_all()
    });
    let placed = written.and_then(|()| std::fs::rename(&beside, file));
    if placed.is_err() {
        std::fs::remove_file(&beside).ok();
    }
    placed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_is_kept_once() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("methods/mine.toml");
        let method = Method { name: "mine".into(), ..Method::preset("lvspec").unwrap() };
        assert_eq!(save_method(file.clone(), method.clone()).unwrap().0, file);
        assert_eq!(Method::from_file(&file).unwrap(), method);
        assert!(save_method(file, method).unwrap_err().contains("another name"));
    }

    #[test]
    fn a_path_may_begin_with_the_home_folder() {
        let home = || Some(PathBuf::from("/home/u"));
        assert_eq!(expand("~/a.mp4", home()), PathBuf::from("/home/u/a.mp4"));
        assert_eq!(expand("~", home()), PathBuf::from("/home/u/"));
        assert_eq!(expand("/x/~", home()), PathBuf::from("/x/~"));
    }
}
