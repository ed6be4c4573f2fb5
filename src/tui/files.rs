//! Files: opening paths, writing exports and methods, the user's editor. Everything here may block and runs off the studio's
//! thread.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::tui::effect::{SidecarsWritten, VideoFile};
use crate::tui::text;
use specreel_batch::{Clip, Options, Outputs, Sidecar, outputs::Need, rows::Caption};
use specreel_os::desktop;
pub(crate) use specreel_os::desktop::plain;
use specreel_record::Failure;
use specreel_speculate::Method;

/// Size and time of a file; `None` if the file does not exist.
pub(crate) fn found(path: &Path) -> Option<VideoFile> {
    let facts = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    Some(VideoFile { path: path.into(), bytes: Some(facts.len()), modified: facts.modified().ok() })
}

/// Open a video in the program that the desktop has for it.
pub(crate) fn play(video: &Path) -> Result<(), String> {
    let shown = text::clean_line(&video.to_string_lossy());
    desktop::open(video).map_err(|why| format!("cannot play {shown}: {why}"))
}

fn create(file: &Path, text: &str) -> std::io::Result<()> {
    File::create_new(file)?.write_all(text.as_bytes())
}

/// Save a method as a new file; an existing file is not overwritten.
pub(crate) fn save_method(file: PathBuf, method: Method) -> Result<(PathBuf, Method), String> {
    let shown = text::clean_line(&file.to_string_lossy());
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder)
            .map_err(|e| format!("cannot create the directory of {shown}: {e}"))?;
    }
    match create(&file, &method.to_toml()) {
        Ok(()) => Ok((file, method)),
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {
            Err(format!("{shown} already exists: choose another name"))
        }
        Err(e) => Err(format!("cannot write {shown}: {e}")),
    }
}

/// Write a text to a new file in the working directory; if the name is taken, to `name-2` and so on.
pub(crate) fn write_new(name: &str, text: &str) -> Result<PathBuf, String> {
    let (stem, ending) = name.rsplit_once('.').unwrap_or((name, "txt"));
    for n in 1..1000 {
        let more = if n > 1 { format!("-{n}") } else { String::new() };
        let file = PathBuf::from(format!("{stem}{more}.{ending}"));
        match create(&file, text) {
            Ok(()) => return Ok(file),
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(format!("cannot write {}: {e}", file.display())),
        }
    }
    Err(format!("too many files named like {name}"))
}

/// Write captions to text files next to their clips, as `caption --sidecar txt` does. Existing files are left alone.
pub(crate) fn write_sidecars(captions: Vec<(PathBuf, String)>) -> SidecarsWritten {
    let mut outcome = SidecarsWritten::default();
    let options = Options {
        sidecar: Some(Sidecar::Txt),
        // A caption is there: that its clip failed once does not matter.
        retry_failed: true,
        prompts: vec![String::new()],
        ..Options::default()
    };
    let (clips, texts): (Vec<Clip>, Vec<String>) =
        captions.into_iter().map(|(video, text)| (Clip::of_file(&video), text)).unzip();
    let mut outputs = match Outputs::open(options, &clips) {
        Ok(outputs) => outputs,
        Err(failure) => {
            outcome.failed.push(failure.error);
            return outcome;
        }
    };
    for (clip, text) in clips.iter().zip(texts) {
        let caption = Caption { text, ..Caption::default() };
        let write = || -> Result<bool, Failure> {
            let Some(_claims) = outputs.claim(clip)? else { return Ok(false) };
            if outputs.need(clip)? == Need::Nothing {
                return Ok(false);
            }
            outputs.write(clip, &[caption]).map(|()| true)
        };
        match write() {
            Ok(true) => outcome.written += 1,
            Ok(false) => outcome.kept += 1,
            Err(failure) => outcome.failed.push(failure.error),
        }
    }
    if let Err(failure) = outputs.finish(true, outcome.failed.len()) {
        outcome.failed.push(failure.error);
    }
    outcome
}

/// Let the user edit a text in `$VISUAL` or `$EDITOR`, which has the terminal meanwhile.
pub(crate) fn edit(text: &str) -> Result<String, String> {
    let chosen = ["VISUAL", "EDITOR"].into_iter().find_map(|name| std::env::var(name).ok());
    let command = chosen.filter(|c| !c.trim().is_empty()).unwrap_or_else(|| desktop::EDITOR.into());
    let failed = |e: std::io::Error| format!("cannot edit the text in a temporary file: {e}");
    let mut file =
        tempfile::Builder::new().prefix("specreel-prompt-").suffix(".md").tempfile().map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    let mut words = command.split_whitespace();
    let program = words.next().unwrap_or(desktop::EDITOR);
    let mut editor = std::process::Command::new(program);
    editor.args(words).arg(file.path());
    // Standard error goes to the log while the studio runs, but the editor may write to it.
    if let Ok(tty) = specreel_os::terminal::for_errors() {
        editor.stderr(tty);
    }
    match editor.status().map_err(|e| format!("cannot run the editor {program}: {e}"))? {
        // Read by its name: many editors replace the file.
        status if status.success() => std::fs::read_to_string(file.path()).map_err(failed),
        status => Err(format!("the editor {program} failed ({status}); the text is unchanged")),
    }
}

/// Expand `~` to the user's home directory.
pub(crate) fn expand(typed: &str, home: Option<PathBuf>) -> PathBuf {
    match (
        typed
            .strip_prefix("~")
            .and_then(|rest| rest.strip_prefix(std::path::is_separator))
            .or((typed == "~").then_some("")),
        home,
    ) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => PathBuf::from(typed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_existing_method_file_is_not_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("methods/mine.toml");
        let method = Method { name: "mine".into(), ..Method::preset("lvspec").unwrap() };
        assert_eq!(save_method(file.clone(), method.clone()).unwrap().0, file);
        assert_eq!(Method::from_file(&file).unwrap(), method);
        assert!(save_method(file, method).unwrap_err().contains("another name"));
    }

    #[test]
    fn captions_are_written_beside_their_clips_and_never_over_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let clip = |name: &str| dir.path().join(name);
        std::fs::write(clip("b.txt"), "mine").unwrap();
        let captions = ["a.mp4", "b.mp4", "a.mkv"].map(|name| (clip(name), format!("A caption of {name}.")));
        let outcome = write_sidecars(captions.into());
        assert_eq!((outcome.written, outcome.kept, outcome.failed.len()), (1, 1, 1), "{outcome:?}");
        assert!(outcome.failed[0].contains("its sidecar"), "{outcome:?}");
        let read = |name: &str| std::fs::read_to_string(clip(name)).unwrap();
        assert_eq!((read("a.txt").as_str(), read("b.txt").as_str()), ("A caption of a.mp4.\n", "mine"));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_path_may_start_with_the_home_directory() {
        let home = || Some(PathBuf::from("/home/u"));
        assert_eq!(expand("~/a.mp4", home()), PathBuf::from("/home/u/a.mp4"));
        assert_eq!(expand("~", home()), PathBuf::from("/home/u/"));
        assert_eq!(expand("/x/~", home()), PathBuf::from("/x/~"));
    }
}
