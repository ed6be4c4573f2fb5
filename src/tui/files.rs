//! Looking at the file system for the library. Everything here may block and runs off the studio's thread.

use std::path::{Path, PathBuf};

use super::{
    Msg,
    model::library::{Found, is_video},
    text,
};
use crate::speculate::Method;

/// Folders deeper than this are not looked into.
const MAX_DEPTH: usize = 4;
/// More files than this are no library.
const MAX_FILES: usize = 20_000;

/// The videos of a folder and of the folders in it, in the order of their paths; hidden ones are left out.
pub(crate) fn scan(folder: &Path) -> Result<Vec<Found>, String> {
    let first = std::fs::read_dir(folder).map_err(|e| {
        format!("cannot read the folder {}: {e}", text::clean_line(&folder.to_string_lossy()))
    })?;
    let mut found = Vec::new();
    let mut looked = 0;
    let mut waiting = vec![(first, 0)];
    while let Some((entries, depth)) = waiting.pop() {
        for entry in entries.flatten() {
            looked += 1;
            if looked > MAX_FILES {
                break;
            }
            if entry.file_name().to_string_lossy().starts_with('.') {
                continue;
            }
            let path = entry.path();
            // Links to files are followed, links to folders are not: they may go in circles.
            let is_folder = entry.file_type().is_ok_and(|t| t.is_dir());
            if is_folder && depth + 1 < MAX_DEPTH {
                waiting.extend(std::fs::read_dir(&path).ok().map(|entries| (entries, depth + 1)));
            } else if !is_folder && is_video(&path) {
                let facts = std::fs::metadata(&path);
                if facts.as_ref().is_ok_and(|m| m.is_file()) {
                    found.push(Found { bytes: facts.ok().map(|m| m.len()), path });
                }
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

/// What a typed or pasted path is.
pub(crate) fn open(typed: &str) -> Msg {
    let path = expand(typed, std::env::var_os("HOME").map(PathBuf::from));
    let shown = text::clean_line(&path.to_string_lossy());
    match std::fs::metadata(&path) {
        Ok(facts) if facts.is_dir() => Msg::Scanned { found: scan(&path), folder: path },
        Ok(facts) if facts.is_file() => Msg::Opened(Ok(Found { bytes: Some(facts.len()), path })),
        Ok(_) => Msg::Opened(Err(format!("{shown} is neither a file nor a folder"))),
        Err(error) => Msg::Opened(Err(format!("cannot open {shown}: {error}"))),
    }
}

/// Keep a method as a file of its own; one that is there is left alone.
pub(crate) fn save_method(file: PathBuf, method: Method) -> Result<(PathBuf, Method), String> {
    use std::io::Write;
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
    use std::io::Write;
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
    use std::io::Write;
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
fn expand(typed: &str, home: Option<PathBuf>) -> PathBuf {
    match (typed.strip_prefix("~/").or((typed == "~").then_some("")), home) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => PathBuf::from(typed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_gives_its_videos_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("sea/.hidden")).unwrap();
        for name in ["b.mp4", "a.MKV", "notes.txt", "sea/c.webm", "sea/.hidden/d.mp4", ".e.mp4"] {
            std::fs::write(dir.path().join(name), "12345").unwrap();
        }
        let found = scan(dir.path()).unwrap();
        let names: Vec<_> =
            found.iter().map(|f| f.path.strip_prefix(dir.path()).unwrap().to_str().unwrap()).collect();
        assert_eq!(names, ["a.MKV", "b.mp4", "sea/c.webm"]);
        assert_eq!(found[0].bytes, Some(5));
        assert!(scan(&dir.path().join("none")).unwrap_err().contains("none"));
    }

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
