//! Results: JSON lines on stdout and in `--out`, the chart in `--svg`, pages in `--pages`. Files are created before the work starts, so that an
//! unwritable path fails at once.

use std::{
    collections::BTreeMap,
    io::{self, Write},
    path::Path,
};

use serde::Serialize;

use specreel::{
    cli::{
        end::End,
        output::{
            new_file::{Named, OutputFile},
            progress::Progress,
            terminal,
        },
    },
    tell,
};
use specreel_bench::Reporter;
use specreel_record::{Failure, Stage};

/// The file of an option that is written line by line, such as `--out`. Fails if it exists (class usage), or cannot be created (class input).
pub fn result_file(
    path: Option<&Path>,
    flag: &'static str,
    force: bool,
) -> Result<Option<OutputFile>, Failure> {
    path.map(|path| OutputFile::create(named(flag), path, force)).transpose()
}

/// The file of an option that is written as a whole at the end; an existing one stays until then. Fails as [`result_file`] does.
pub fn whole_file(path: &Path, flag: &'static str, force: bool) -> Result<OutputFile, Failure> {
    OutputFile::claim(named(flag), path, force)
}

fn named(flag: &'static str) -> Named {
    Named { flag, what: "", on_failure: "earlier results are kept; is the disk full?", private: false }
}

/// Where a benchmark's results go.
pub struct Output {
    pub progress: Progress,
    /// Print JSON lines instead of tables.
    pub json: bool,
    /// Write the JSON lines to this file.
    pub lines: Option<OutputFile>,
    /// The chart, or the pages, by name.
    pub files: BTreeMap<String, OutputFile>,
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
            file.append(line.as_bytes())?;
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

    fn wants_file(&self, name: &str) -> bool {
        self.files.contains_key(name)
    }

    fn file(&mut self, name: &str, text: &str) -> Result<(), End> {
        Ok(self.files.get_mut(name).map_or(Ok(()), |file| file.replace(text.as_bytes()))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_a_line_that_names_its_kind() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bench.jsonl");
        let lines = result_file(Some(&path), "--out", false).unwrap();
        let mut output =
            Output { progress: Progress::new(false), json: false, lines, files: BTreeMap::new() };
        output.line("trial", &serde_json::json!({ "clip": 7 })).unwrap();
        output.line("summary", &serde_json::json!({})).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, "{\"event\":\"trial\",\"clip\":7}\n{\"event\":\"summary\"}\n");
    }
}
