//! The recent files: a JSON list of paths in the data directory, newest first.
//!
//! The list is replaced as a whole, so that a killed program cannot truncate it. Files that no longer exist are skipped when it
//! is read.

use std::path::{Path, PathBuf};
use std::{io::ErrorKind, sync::Mutex};

use crate::tui::{effect::VideoFile, files};
use specreel_client::private;
use specreel_video::folder::is_video;

const MOST: usize = 20;
const MAX_BYTES: u64 = 1 << 20;

/// The files of the list that still exist.
pub(crate) fn load(list: &Path) -> Result<Vec<VideoFile>, String> {
    Ok(read(list)?.iter().filter(|p| is_video(p)).filter_map(|p| files::found(p)).collect())
}

pub(crate) fn remember(list: &Path, file: &Path) -> Result<(), String> {
    // Two files that are opened at the same time must both be in the list.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock();
    let file = std::path::absolute(file).unwrap_or_else(|_| file.into());
    // An invalid list is replaced.
    let mut paths = read(list).unwrap_or_default();
    paths.retain(|p| *p != file);
    paths.insert(0, file);
    paths.truncate(MOST);
    // JSON cannot hold a name that is not UTF-8.
    let names: Vec<&str> = paths.iter().filter_map(|p| p.to_str()).collect();
    let text = serde_json::to_string_pretty(&names).unwrap_or_default() + "\n";
    private::replace(list, text.as_bytes())
        .map_err(|e| format!("cannot write the list of recent files {}: {e}", list.display()))
}

fn read(list: &Path) -> Result<Vec<PathBuf>, String> {
    let trouble = |what: String| format!("cannot read the list of recent files {}: {what}", list.display());
    match std::fs::metadata(list) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Ok(facts) if facts.len() > MAX_BYTES => return Err(trouble("it is too large".into())),
        _ => {}
    }
    let text = std::fs::read_to_string(list).map_err(|e| trouble(e.to_string()))?;
    let mut paths: Vec<PathBuf> = serde_json::from_str(&text).map_err(|e| trouble(e.to_string()))?;
    paths.truncate(MOST);
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_is_first_and_missing_files_are_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let list = dir.path().join("data/recent.json");
        assert_eq!(load(&list), Ok(vec![]));
        let file = |n: usize| dir.path().join(format!("{n}.mp4"));
        for n in 0..MOST + 5 {
            std::fs::write(file(n), "x").unwrap();
            remember(&list, &file(n)).unwrap();
        }
        remember(&list, &file(20)).unwrap();
        std::fs::remove_file(file(24)).unwrap();
        let names: Vec<PathBuf> = load(&list).unwrap().into_iter().map(|f| f.path).collect();
        assert_eq!(names.len(), MOST - 1);
        assert_eq!(names[..3], [file(20), file(23), file(22)]);
        let kept = std::fs::read_dir(list.parent().unwrap()).unwrap().count();
        assert_eq!(kept, 1, "nothing is left next to the list");
    }

    #[test]
    fn a_damaged_list_is_reported_and_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let (list, file) = (dir.path().join("recent.json"), dir.path().join("a.mp4"));
        std::fs::write(&list, "[\"/x.mp4\"").unwrap();
        std::fs::write(&file, "x").unwrap();
        assert!(load(&list).unwrap_err().contains("recent.json"));
        remember(&list, &file).unwrap();
        assert_eq!(load(&list).unwrap()[0].path, file);
        // A file in place of the directory.
        let error = remember(&file.join("recent.json"), &file).unwrap_err();
        assert!(error.contains("cannot write the list of recent files"), "{error}");
    }
}
