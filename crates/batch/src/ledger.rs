//! Small files of JSON lines next to the outputs: failed clips, and the finished clips of an interrupted run. The last line about a
//! clip counts; lines that a killed process has left incomplete are skipped.

use std::io::{Seek, SeekFrom};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::claim::open_below;
use super::*;
use specreel_os::file as os;

/// A clip that failed, as it was then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    pub id: u64,
    pub video: String,
    /// Its size in bytes, and when it was written, in milliseconds since 1970.
    pub stamp: (u64, u64),
    /// Why it failed; none once it was captioned.
    pub error: Option<String>,
}

/// A clip whose outputs are written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    pub id: u64,
    /// Hashes of its sidecar before and after. The line is written first: if the sidecar still is as before, it was not replaced.
    pub change: Option<(u64, u64)>,
}

pub trait Line: Serialize + DeserializeOwned {
    fn id(&self) -> u64;
}

impl Line for Failed {
    fn id(&self) -> u64 {
        self.id
    }
}

impl Line for Done {
    fn id(&self) -> u64 {
        self.id
    }
}

#[derive(Debug)]
pub struct Ledger<L> {
    path: PathBuf,
    lines: HashMap<u64, L>,
    length: u64,
    /// Says that the ledger is in use, by a shared lock.
    held: Option<File>,
}

impl<L: Line> Ledger<L> {
    pub fn open(path: PathBuf) -> Self {
        let mut ledger = Self { path, lines: HashMap::new(), length: 0, held: None };
        ledger.refresh();
        ledger
    }

    /// Read the lines that other processes have written.
    pub fn refresh(&mut self) {
        let Ok(mut file) = File::open(&self.path) else { return };
        let length = file.metadata().map_or(0, |facts| facts.len());
        if length < self.length {
            self.length = 0;
        }
        let mut bytes = Vec::new();
        let read = file.seek(SeekFrom::Start(self.length)).and_then(|_| file.read_to_end(&mut bytes));
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        if read.is_err() || whole == 0 {
            return;
        }
        let lines = bytes[..whole].split(|byte| *byte == b'\n');
        let lines = lines.filter_map(|line| serde_json::from_slice::<L>(line).ok());
        self.lines.extend(lines.map(|line| (line.id(), line)));
        self.length += whole as u64;
    }

    /// Keep other processes from removing the ledger.
    pub fn hold(&mut self) -> io::Result<()> {
        if self.held.is_some() {
            return Ok(());
        }
        loop {
            let file = open_below(&self.path, OpenOptions::new().append(true).create(true))?;
            match os::lock_shared(&file) {
                Err(error) if error.kind() != io::ErrorKind::Unsupported => return Err(error),
                _ => {}
            }
            // Its last holder may have removed it between opening and locking.
            if os::is_at(&file, &self.path)? {
                self.held = Some(file);
                return Ok(());
            }
        }
    }

    /// Remove the ledger unless another process holds it.
    pub fn release(&mut self) {
        let Some(file) = self.held.take() else { return };
        if os::unlock(&file).and_then(|()| os::try_lock(&file).map_err(io::Error::from)).is_ok() {
            self.remove();
        }
    }

    pub fn get(&self, id: u64) -> Option<&L> {
        self.lines.get(&id)
    }

    pub fn add(&mut self, line: L) -> io::Result<()> {
        // A line break first: the line before may be incomplete.
        let text = format!("\n{}\n", serde_json::to_string(&line)?);
        let mut file = open_below(&self.path, OpenOptions::new().append(true).create(true))?;
        file.write_all(text.as_bytes())?;
        file.sync_data()?;
        self.lines.insert(line.id(), line);
        Ok(())
    }

    /// Remove the file, and its directory if that is empty then.
    pub fn remove(&mut self) {
        self.lines.clear();
        self.length = 0;
        let _ = std::fs::remove_file(&self.path);
        if let Some(folder) = self.path.parent() {
            let _ = std::fs::remove_dir(folder);
        }
    }

    /// True if no line is about a clip that this accepts.
    pub fn is_clear(&self, matters: impl Fn(&L) -> bool) -> bool {
        !self.lines.values().any(matters)
    }
}

/// Size and time of a file, to see whether it has changed: bytes, and milliseconds since 1970. `None` if the file does not exist.
pub fn stamp(path: &Path) -> Option<(u64, u64)> {
    let facts = std::fs::metadata(path).ok()?;
    let since = facts.modified().ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    Some((facts.len(), since.map_or(0, |since| since.as_millis() as u64)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_whole_line_about_a_clip_counts() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state/done.jsonl");
        let mut ledger = Ledger::<Done>::open(path.clone());
        ledger.add(Done { id: 1, change: Some((2, 3)) }).unwrap();
        // A line that was cut short.
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"id\":5").unwrap();
        ledger.add(Done { id: u64::MAX, change: None }).unwrap();
        let mut again = Ledger::<Done>::open(path.clone());
        assert_eq!(again.get(1), Some(&Done { id: 1, change: Some((2, 3)) }));
        assert!(again.get(u64::MAX).is_some() && again.get(5).is_none());
        again.remove();
        assert!(!path.parent().unwrap().exists() && again.is_clear(|_| true));
    }
}
