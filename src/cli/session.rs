//! Saved sessions: the event lines of a run, one JSON object a line.

use std::{
    fs::File,
    io::{self, Write},
    path::{Path, PathBuf},
};

use crate::record::{Event, Failure, FailureClass};

/// A session file that is being written. Every event is one write, so a crash loses at most the event it happened in.
#[derive(Debug)]
pub struct SessionFile {
    file: File,
    path: PathBuf,
}

impl SessionFile {
    /// Create the file; with `force`, replace what is there.
    ///
    /// # Errors
    /// It exists (class usage), or cannot be created (class input).
    pub fn create(path: &Path, force: bool) -> Result<SessionFile, Failure> {
        let mut options = File::options();
        options.write(true);
        if force {
            options.create(true).truncate(true)
        } else {
            options.create_new(true)
        };
        match options.open(path) {
            Ok(file) => Ok(SessionFile { file, path: path.into() }),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Err(Failure {
                class: FailureClass::Usage,
                error: format!("{} exists", path.display()),
                hint: Some("choose another name for --save, or add --force to overwrite it".into()),
            }),
            Err(e) => Err(Failure {
                class: FailureClass::Input,
                error: format!("cannot write the session to {}: {e}", path.display()),
                hint: Some("choose a writable place for --save".into()),
            }),
        }
    }

    /// Append one event.
    ///
    /// # Errors
    /// The file cannot be written (class internal: what was saved before is kept).
    pub fn append(&mut self, event: &Event) -> Result<(), Failure> {
        let write = || -> io::Result<()> {
            let mut line = serde_json::to_vec(event)?;
            line.push(b'\n');
            (&self.file).write_all(&line)
        };
        write().map_err(|e| self.failed(&e))
    }

    /// Make sure that it is on the disk.
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
        Failure {
            class: FailureClass::Internal,
            error: format!("cannot write the session to {}: {error}", self.path.display()),
            hint: Some("what was saved before is kept; is the disk full?".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{EventKind, Stage};

    #[test]
    fn lines_are_there_at_once_and_nothing_is_overwritten_unasked() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run.jsonl");
        let event = Event::new(1, EventKind::Stage { stage: Stage::Decode, done: 1, total: 2 });
        let mut session = SessionFile::create(&path, false).unwrap();
        session.append(&event).unwrap();
        session.append(&event).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let events: Vec<Event> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        assert_eq!(events, [event.clone(), event]);
        session.finish().unwrap();

        let failure = SessionFile::create(&path, false).unwrap_err();
        assert_eq!(failure.class, FailureClass::Usage);
        SessionFile::create(&path, true).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "");
        assert_eq!(SessionFile::create(dir.path(), true).unwrap_err().class, FailureClass::Input);
    }
}
