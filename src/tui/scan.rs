//! The videos in a directory and its subdirectories.
//!
//! Hidden files are skipped, and files that `.gitignore` and `.ignore` files inside the directory exclude. Symbolic links are
//! followed, except for cycles.

use std::path::{Path, PathBuf};

use ignore::DirEntry;

use crate::tui::effect::{Msg, VideoFile};
use crate::tui::{files, text};
use specreel_video::folder::{self, is_video};

/// Directories deeper than this are not scanned.
const MAX_DEPTH: usize = 8;
/// At most this many files and directories are scanned.
const MAX_LOOKED: usize = 20_000;

#[derive(Debug, Default)]
struct Walked {
    found: Vec<VideoFile>,
    unreadable: usize,
    cut: bool,
}

/// Open a typed or pasted path: a video, or a directory of videos.
pub(crate) fn open(typed: &str) -> Msg {
    let path = files::expand(typed, specreel_os::dirs::home());
    let shown = text::clean_line(&path.to_string_lossy());
    let path = std::path::absolute(&path).unwrap_or(path);
    match std::fs::metadata(&path) {
        Ok(facts) if facts.is_dir() => scan(path),
        Ok(_) => match files::found(&path) {
            Some(file) => Msg::Opened(Ok(file)),
            None => Msg::Opened(Err(format!("{shown} is neither a file nor a directory"))),
        },
        Err(error) => Msg::Opened(Err(format!("cannot open {shown}: {}", files::plain(&error)))),
    }
}

/// Scan a directory; a notice names missing ones.
pub(crate) fn scan(folder: PathBuf) -> Msg {
    let shown = text::clean_line(&folder.to_string_lossy());
    // The same file has the same path, however it was opened.
    let folder = std::path::absolute(&folder).unwrap_or(folder);
    if let Err(error) = std::fs::read_dir(&folder) {
        return Msg::Scanned {
            found: Err(format!("cannot read the directory {shown}: {}", files::plain(&error))),
            folder,
            note: None,
        };
    }
    let walked = walk(&folder, true, MAX_LOOKED);
    let mut notes = Vec::new();
    if walked.found.is_empty() {
        match walk(&folder, false, MAX_LOOKED).found.len() {
            0 => notes.push(format!("no videos in {shown}")),
            n => notes.push(format!("no videos in {shown}, except {n} that .gitignore or .ignore exclude")),
        }
    }
    if walked.cut {
        notes.push(format!(
            "{shown} has more than {MAX_LOOKED} files, not all of which were scanned: open a subdirectory"
        ));
    }
    match walked.unreadable {
        0 => {}
        1 => notes.push(format!("one directory in {shown} cannot be read")),
        n => notes.push(format!("{n} directories in {shown} cannot be read")),
    }
    let note = (!notes.is_empty()).then(|| notes.join("; "));
    Msg::Scanned { folder, found: Ok(walked.found), note }
}

/// The videos in the order of their paths, after at most `most` entries.
fn walk(folder: &Path, obey: bool, most: usize) -> Walked {
    let mut walked = Walked::default();
    let walk = folder::walk(folder, obey).max_depth(Some(MAX_DEPTH)).build();
    for (looked, entry) in walk.enumerate() {
        if looked > most {
            walked.cut = true;
            break;
        }
        match entry {
            Ok(entry) => walked.found.extend(video(&entry)),
            Err(error) => walked.unreadable += usize::from(is_unreadable(&error)),
        }
    }
    walked.found.sort_by(|a, b| a.path.cmp(&b.path));
    walked
}

fn video(entry: &DirEntry) -> Option<VideoFile> {
    let is_folder = entry.file_type().is_none_or(|t| t.is_dir());
    files::found(entry.path()).filter(|_| !is_folder && is_video(entry.path()))
}

/// False for symbolic links that are cycles or broken.
fn is_unreadable(error: &ignore::Error) -> bool {
    error.io_error().is_some_and(|e| e.kind() == std::io::ErrorKind::PermissionDenied)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let file = dir.path().join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        dir
    }

    fn names(dir: &Path, found: &[VideoFile]) -> Vec<String> {
        found.iter().map(|f| f.path.strip_prefix(dir).unwrap().to_string_lossy().into_owned()).collect()
    }

    fn note(dir: &Path) -> Option<String> {
        match scan(dir.into()) {
            Msg::Scanned { note, .. } => note,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_scan_finds_videos_and_nothing_else() {
        let dir = folder(
            &["b.mp4", "a.MKV", "notes.txt", "sea/c.webm", "sea/.hidden/d.mp4", ".e.mp4"]
                .map(|n| (n, "12345")),
        );
        let walked = walk(dir.path(), true, 100);
        assert_eq!(names(dir.path(), &walked.found), ["a.MKV", "b.mp4", "sea/c.webm"]);
        assert!(walked.found[0].bytes == Some(5) && walked.found[0].modified.is_some());
        let Msg::Scanned { found: Err(problem), .. } = scan(dir.path().join("none")) else { panic!() };
        assert!(problem.contains("cannot read the directory") && problem.contains("none"), "{problem}");
        assert!(note(dir.path()).is_none());
    }

    #[test]
    fn ignored_files_are_skipped_and_counted_if_nothing_else_is_found() {
        let dir = folder(&[
            ("keep.mp4", ""),
            ("cut.mp4", ""),
            (".gitignore", "cut.mp4\n"),
            ("raw/a.mp4", ""),
            ("raw/b.mp4", ""),
            ("raw/.ignore", "*\n!b.mp4\n"),
        ]);
        assert_eq!(names(dir.path(), &walk(dir.path(), true, 100).found), ["keep.mp4", "raw/b.mp4"]);
        std::fs::write(dir.path().join(".ignore"), "*.mp4\n").unwrap();
        std::fs::remove_file(dir.path().join("raw/.ignore")).unwrap();
        assert!(note(dir.path()).unwrap().ends_with("except 4 that .gitignore or .ignore exclude"));
        // Ignore files above the directory do not count.
        assert_eq!(walk(&dir.path().join("raw"), true, 100).found.len(), 2);
    }

    #[cfg(unix)]
    #[test]
    fn links_are_followed_except_for_cycles() {
        let dir = folder(&[("a/x.mp4", ""), ("a/b/y.mp4", "")]);
        let other = folder(&[("z.mp4", "")]);
        std::os::unix::fs::symlink(dir.path(), dir.path().join("a/b/up")).unwrap();
        std::os::unix::fs::symlink(other.path(), dir.path().join("more")).unwrap();
        std::os::unix::fs::symlink("nowhere.mp4", dir.path().join("dead.mp4")).unwrap();
        assert_eq!(
            names(dir.path(), &walk(dir.path(), true, 100).found),
            ["a/b/y.mp4", "a/x.mp4", "more/z.mp4"]
        );
        assert_eq!(note(dir.path()), None);
    }

    #[cfg(unix)]
    #[test]
    fn unreadable_directories_are_counted() {
        use std::os::unix::fs::PermissionsExt;
        let dir = folder(&[("a.mp4", ""), ("shut/b.mp4", "")]);
        let shut = dir.path().join("shut");
        std::fs::set_permissions(&shut, std::fs::Permissions::from_mode(0o000)).unwrap();
        // The superuser can read everything.
        let is_shut = std::fs::read_dir(&shut).is_err();
        let (walked, note) = (walk(dir.path(), true, 100), note(dir.path()));
        std::fs::set_permissions(&shut, std::fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(walked.unreadable, usize::from(is_shut));
        assert_eq!(walked.found.len(), if is_shut { 1 } else { 2 });
        assert_eq!(note.is_some_and(|n| n.starts_with("one directory in ")), is_shut);
    }

    #[test]
    fn a_scan_is_limited() {
        let dir = folder(&["a.mp4", "b.mp4", "c.mp4"].map(|n| (n, "")));
        let walked = walk(dir.path(), true, 2);
        assert!(walked.cut && walked.found.len() == 2);
        assert!(!walk(dir.path(), true, 3).cut);
    }
}
