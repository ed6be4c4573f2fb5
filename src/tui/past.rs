//! The prompts of earlier sessions: a file with one JSON string per line, newest last.
//!
//! A prompt is appended as one write, so that two studios can share the file and a killed one loses at most its last line. At
//! twice the number of prompts that are kept, or a size, the file is rewritten as a whole.

use std::io::{self, Read, Seek, SeekFrom, Write};
use std::{fs::File, path::Path};

use crate::tui::model::prompt::MAX_HISTORY;
use specreel_client::private;

/// Bytes at the end of a file that are read: more than the prompts that are kept usually have.
const MAX_BYTES: u64 = 4 << 20;

/// The prompts at the end of a file, oldest first, each at its last position only. Unreadable lines are left out, and so is one
/// of which only the end is read.
pub(crate) fn read(file: &Path) -> Vec<String> {
    let bytes = File::open(file).and_then(|mut file| end(&mut file)).unwrap_or_default();
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

pub(crate) fn add(file: &Path, prompt: &str) -> io::Result<()> {
    if let Some(folder) = file.parent() {
        private::create_dir_all(folder)?;
    }
    let mut there = private::options().create(true).append(true).read(true).open(file)?;
    let mut line = serde_json::to_vec(prompt)?;
    line.push(b'\n');
    if !ends_well(&mut there)? {
        line.insert(0, b'\n');
    }
    there.write_all(&line)?;
    let lines = end(&mut there)?.iter().filter(|b| **b == b'\n').count();
    let is_long = lines > 2 * MAX_HISTORY || there.metadata()?.len() > MAX_BYTES;
    drop(there);
    if is_long { shorten(file) } else { Ok(()) }
}

/// The last bytes of a file.
fn end(file: &mut File) -> io::Result<Vec<u8>> {
    let begin = file.metadata()?.len().saturating_sub(MAX_BYTES);
    file.seek(SeekFrom::Start(begin))?;
    let mut bytes = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// True if the last line is complete. Otherwise a killed program left it, and the next line must not continue it.
fn ends_well(file: &mut File) -> io::Result<bool> {
    if file.metadata()?.len() == 0 {
        return Ok(true);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last == [b'\n'])
}

/// Rewrite the file with the prompts at its end that are kept.
fn shorten(file: &Path) -> io::Result<()> {
    let mut text = Vec::new();
    for prompt in read(file) {
        text.extend(serde_json::to_vec(&prompt)?);
        text.push(b'\n');
    }
    private::replace(file, &text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_are_read_once_in_the_order_of_their_last_use() {
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
            let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));
        }
    }

    #[test]
    fn an_incomplete_line_is_skipped() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("prompts.jsonl");
        std::fs::write(&file, "\"one\"\n17\n\"tw").unwrap();
        add(&file, "three").unwrap();
        assert_eq!(read(&file), ["one", "three"]);
    }

    #[test]
    fn of_a_large_file_only_the_end_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("prompts.jsonl");
        let long = format!("\"{}\"\n", "x".repeat(MAX_BYTES as usize));
        std::fs::write(&file, format!("\"lost\"\n{long}\"one\"\n\"two\"\n")).unwrap();
        assert_eq!(read(&file), ["one", "two"]);
        add(&file, "three").unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "\"one\"\n\"two\"\n\"three\"\n");
    }

    #[test]
    fn the_file_does_not_grow_forever() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("prompts.jsonl");
        let line = |i: usize| format!("\"prompt {i}\"\n");
        std::fs::write(&file, (0..2 * MAX_HISTORY).map(line).collect::<String>()).unwrap();
        add(&file, "the last").unwrap();
        let prompts = read(&file);
        assert_eq!((prompts.len(), prompts.last().map(String::as_str)), (MAX_HISTORY, Some("the last")));
        assert_eq!(std::fs::read_to_string(&file).unwrap().lines().count(), MAX_HISTORY);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left next to it");
    }
}
