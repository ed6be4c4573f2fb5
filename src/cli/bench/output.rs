//! Results: JSON lines on stdout and in `--out`, the chart in `--svg`. Files are created before the work starts, so that an
//! unwritable path fails at once.

use std::{
    fs::File,
    io::{self, Write},
    path::{Path, PathBuf},
};

use serde::Serialize;

use crate::cli::{
    end::End,
    output::{
        new_file::{Named, discard_empty},
        progress::Progress,
        terminal,
    },
};
use specreel_bench::Reporter;
use specreel_record::{Failure, Stage};

/// A result file. It is removed again if it stays empty.
#[derive(Debug)]
pub struct ResultFile {
    file: File,
    named: Named,
    path: PathBuf,
    /// It did not exist before.
    new: bool,
}

impl ResultFile {
    /// Create the file of option `flag`; with `force`, overwrite an existing one.
    ///
    /// # Errors
    /// It exists (class usage), or cannot be created (class input).
    pub fn create(path: &Path, flag: &'static str, force: bool) -> Result<ResultFile, Failure> {
        let named = Named { flag, what: "" };
        let new = !path.exists();
        Ok(ResultFile { file: named.open(path, force, true)?, named, path: path.into(), new })
    }

    /// Append text.
    ///
    /// # Errors
    /// The file cannot be written (class internal). Earlier writes are kept.
    pub fn append(&mut self, text: &str) -> Result<(), Failure> {
        self.file
            .write_all(text.as_bytes())
            .map_err(|e| self.named.broken(&self.path, &e, "earlier results are kept; is the disk full?"))
    }
}

impl Drop for ResultFile {
    fn drop(&mut self) {
        if self.new {
            discard_empty(&self.path);
        }
    }
}

/// Where a benchmark's results go.
pub struct Output {
    /// The progress line.
    pub progress: Progress,
    /// Print JSON lines instead of tables.
    pub json: bool,
    /// Write the JSON lines to this file.
    pub lines: Option<ResultFile>,
    /// The chart, or the page.
    pub file: Option<ResultFile>,
}

/// A result with the name of its kind.
#[derive(Serialize)]
struct TaggedResult<'a, T> {
    event: &'a str,
    #[serde(flatten)]
    body: &'a T,
}

impl Reporter for Output {
    type Error = End;

    fn stage(&mut self, stage: Stage, done: u64, total: u64) {
        self.progress.stage(stage, done, total);
    }

    fn ended(&mut self) {
        self.progress.clear();
    }

    fn note(&mut self, note: &str) {
        tell!("note: {note}");
    }

    fn line<T: Serialize>(&mut self, event: &str, body: &T) -> Result<(), End> {
        if !self.json && self.lines.is_none() {
            return Ok(());
        }
        let mut line = serde_json::to_string(&TaggedResult { event, body }).map_err(io::Error::from)?;
        line.push('\n');
        if let Some(file) = &mut self.lines {
            file.append(&line)?;
        }
        if self.json {
            let mut out = io::stdout().lock();
            out.write_all(line.as_bytes())?;
            out.flush()?;
        }
        Ok(())
    }

    fn columns(&self) -> Option<usize> {
        terminal::columns()
    }

    fn table(&mut self, text: &str) -> Result<(), End> {
        if !self.json {
            io::stdout().write_all(text.as_bytes())?;
        }
        Ok(())
    }

    fn wants_file(&self) -> bool {
        self.file.is_some()
    }

    fn file(&mut self, text: &str) -> Result<(), End> {
        Ok(self.file.as_mut().map_or(Ok(()), |file| file.append(text))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use specreel_record::FailureClass;

    #[test]
    fn a_file_that_stays_empty_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("front.svg");
        drop(ResultFile::create(&path, "--svg", false).unwrap());
        assert!(!path.exists());
        std::fs::write(&path, "old").unwrap();
        drop(ResultFile::create(&path, "--svg", true).unwrap());
        assert!(path.exists());
    }

    #[test]
    fn lines_are_written_and_files_overwritten_only_with_force() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bench.jsonl");
        let lines = Some(ResultFile::create(&path, "--out", false).unwrap());
        let mut output = Output { progress: Progress::new(false), json: false, lines, file: None };
        output.line("trial", &serde_json::json!({ "clip": 7 })).unwrap();
        output.line("summary", &serde_json::json!({})).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, "{\"event\":\"trial\",\"clip\":7}\n{\"event\":\"summary\"}\n");

        let failure = ResultFile::create(&path, "--out", false).unwrap_err();
        assert_eq!(failure.class, FailureClass::Usage);
        assert!(failure.hint.unwrap().contains("--out"));
        ResultFile::create(&path, "--out", true).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "");
        assert_eq!(ResultFile::create(dir.path(), "--svg", true).unwrap_err().class, FailureClass::Input);
    }
}
