//! The prompts of earlier sittings: a file with one JSON string a line, the newest last.
//!
//! A prompt that was run is one write of one line at the end, so that two studios do not disturb each other and a killed one
//! loses nothing but perhaps its last line. When the file has grown to twice of what is kept, it is written anew beside itself
//! and put in its own place.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    path::Path,
};

use super::{files, model::prompt::MAX_HISTORY};

/// Larger files are no prompts.
const MAX_BYTES: u64 = 64 << 20;

/// The prompts of a file, the oldest first, each once and where it stood last. No file, or one that cannot be read, is none;
/// lines that are none are passed over.
pub(crate) fn read(file: &Path) -> Vec<String> {
    let fits = std::fs::metadata(file).is_ok_and(|about| about.len() <= MAX_BYTES);
    let bytes = if fits { std::fs::read(file).unwrap_or_default() } else { Vec::new() };
    let lines = bytes.split(|b| *b == b'\n').rev();
    let mut newest: Vec<String> = Vec::new();
    let mut known = std::collections::HashSet::new();
    for prompt in lines.filter_map(|line| serde_json::from_slice::<String>(line).ok()) {
        if newest.len() < MAX_HISTORY && known.insert(prompt.clone()) {
            newest.push(prompt);
        }
    }
    newest.reverse();
    newest
}

/// Add a prompt to a file.
///
/// # Errors
/// The system does not write it.
pub(crate) fn add(file: &Path, prompt: &str) -> io::Result<()> {
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut options = OpenOptions::new();
    options.create(true).append(true).read(true);
    // What one asks is nobody else's business.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut there = options.open(file)?;
    let mut line = serde_json::to_vec(prompt)?;
    line.push(b'\n');
    if !ends_well(&mut there)? {
        line.insert(0, b'\n');
    }
    there.write_all(&line)?;
    drop(there);
    let lines = std::fs::read(file)?.iter().filter(|b| **b == b'\n').count();
    if lines > 2 * MAX_HISTORY { shorten(file) } else { Ok(()) }
}

/// True if the last line is whole: one that a killed program left must not swallow the next.
fn ends_well(file: &mut File) -> io::Result<bool> {
    use std::io::{Read, Seek, SeekFrom};
    if file.metadata()?.len() == 0 {
        return Ok(true);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last == [b'\n'])
}

/// Write the file anew with what is kept of it.
fn shorten(file: &Path) -> io::Result<()> {
    let mut text = Vec::new();
    for prompt in read(file) {
        text.extend(serde_json::to_vec(&prompt)?);
        text.push(b'\n');
    }
    files::replace_private(file, &text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_come_back_once_in_the_order_of_their_last_use() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("data/prompts.jsonl");
        assert_eq!(read(&file), Vec::<String>::new());
        for prompt in ["one", "two\nlines \"quoted\"", "one", "日本"] {
            add(&file, prompt).unwrap();
        }
        assert_eq!(read(&file), ["two\nlines \"quoted\"", "one", "日本"]);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }

    #[test]
    fn a_torn_line_costs_nothing_but_itself() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("prompts.jsonl");
        std::fs::write(&file, "\"one\"\n17\n\"tw").unwrap();
        add(&file, "three").unwrap();
        assert_eq!(read(&file), ["one", "three"]);
    }

    #[test]
    fn the_file_does_not_grow_without_end() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("prompts.jsonl");
        let line = |i: usize| format!("\"prompt {i}\"\n");
        std::fs::write(&file, (0..2 * MAX_HISTORY).map(line).collect::<String>()).unwrap();
        add(&file, "the last").unwrap();
        let prompts = read(&file);
        assert_eq!((prompts.len(), prompts.last().map(String::as_str)), (MAX_HISTORY, Some("the last")));
        assert_eq!(std::fs::read_to_string(&file).unwrap().lines().count(), MAX_HISTORY);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left beside it");
    }
}
