//! Session files as `--save` writes them: the events of a run, one JSON object per line.

use std::{
    fs::File,
    io::{self, Write},
    path::{Path, PathBuf},
};

use super::new_file::{Named, discard_empty};
use crate::cli::resolve::stdin_video;
use specreel_record::{Event, Failure};

const SESSION: Named = Named { flag: "--save", what: "the session to " };

/// An event as a line of JSON, its line end included. A video from stdin is called `-`.
///
/// # Errors
/// Only if a value of it has no JSON form.
pub fn event_line(event: &Event) -> io::Result<Vec<u8>> {
    let renamed = stdin_video::renamed(event);
    let mut line = serde_json::to_vec(renamed.as_ref().unwrap_or(event))?;
    line.push(b'\n');
    Ok(line)
}

/// A session file that is being written. Every event is one write, so a crash loses at most the current event.
#[derive(Debug)]
pub struct SessionFile {
    file: File,
    path: PathBuf,
    /// It did not exist before.
    new: bool,
}

impl SessionFile {
    /// Create the file; with `force`, replace what is there.
    ///
    /// # Errors
    /// It exists (class usage), or cannot be created (class input).
    pub fn create(path: &Path, force: bool) -> Result<SessionFile, Failure> {
        let new = !path.exists();
        Ok(SessionFile { file: SESSION.open(path, force, true)?, path: path.into(), new })
    }

    /// Append one event.
    ///
    /// # Errors
    /// The file cannot be written (class internal: what was saved before is kept).
    pub fn append(&mut self, event: &Event) -> Result<(), Failure> {
        event_line(event).and_then(|line| (&self.file).write_all(&line)).map_err(|e| self.failed(&e))
    }

    /// Flush it to the disk.
    ///
    /// # Errors
    /// As [`SessionFile::append`].
    pub fn finish(&mut self) -> Result<(), Failure> {
        match self.file.sync_all() {
            // Pipes and devices cannot be synced and need not be.
            Err(e) if e.kind() != io::ErrorKind::InvalidInput && e.kind() != io::ErrorKind::Unsupported => {
                Err(self.failed(&e))
            }
            _ => Ok(()),
        }
    }

    fn failed(&self, error: &io::Error) -> Failure {
        SESSION.broken(&self.path, error, "events saved so far are kept; check the free disk space")
    }
}

impl Drop for SessionFile {
    fn drop(&mut self) {
        if self.new {
            discard_empty(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use specreel_record::{EventKind, FailureClass, Stage};

    #[test]
    fn events_are_written_at_once_and_existing_files_need_force() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run.jsonl");
        let event =
            Event::new(1, EventKind::Stage { stage: Stage::Decode, done: 1, total: 2, left_ms: None });
        let mut session = SessionFile::create(&path, false).unwrap();
        session.append(&event).unwrap();
        session.append(&event).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let events: Vec<Event> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        assert_eq!(events, [event.clone(), event]);
        session.finish().unwrap();

        // A file without events is removed.
        let other = dir.path().join("other.jsonl");
        drop(SessionFile::create(&other, false).unwrap());
        assert!(!other.exists());

        let failure = SessionFile::create(&path, false).unwrap_err();
        assert_eq!(failure.class, FailureClass::Usage);
        SessionFile::create(&path, true).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "");
        assert_eq!(SessionFile::create(dir.path(), true).unwrap_err().class, FailureClass::Input);
    }
}
