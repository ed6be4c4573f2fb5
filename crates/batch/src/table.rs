//! The file of a data set. Rows are appended under a lock, so that processes can share the file; an incomplete last row, as a
//! killed process leaves it, is cut off before the next one is appended.

use std::io::{Seek, SeekFrom};

use super::{rows::Kind, sidecar::replace, *};
use specreel_os::file as os;
use specreel_record::FailureClass;

/// Bytes read at once.
const CHUNK: u64 = 8 << 20;

#[derive(Debug)]
pub struct Table {
    path: PathBuf,
    kind: Kind,
    /// `None` until something is written to a new file.
    file: Option<File>,
    /// Whole rows have been read up to here.
    read: u64,
    /// The last row has no line break.
    unended: bool,
    keys: HashSet<u64>,
}

impl Table {
    /// Open a data set, and read its rows' subjects. A file that does not exist is created by the first row. Fails if the
    /// file cannot be read or written, or has another form.
    pub fn open(path: &Path, kind: Kind) -> Result<Self, Failure> {
        let path = path.to_owned();
        let mut table = Self { path, kind, file: None, read: 0, unended: false, keys: HashSet::new() };
        match OpenOptions::new().read(true).write(true).open(&table.path) {
            Ok(file) => table.file = Some(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(table),
            Err(error) => return Err(table.failed(&error)),
        }
        table.refresh().map_err(|error| table.failed(&error))?;
        table.check()?;
        table.tail().map_err(|error| table.failed(&error))?;
        Ok(table)
    }

    pub fn failed(&self, error: &io::Error) -> Failure {
        let failure = super::unwritable(&self.path, error);
        let hint = "choose a writable file for --dataset-file";
        match failure.class {
            FailureClass::Internal => failure,
            _ => Failure { hint: Some(hint.into()), ..failure },
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn kind(&self) -> Kind {
        self.kind
    }

    pub fn has(&self, key: u64) -> bool {
        self.keys.contains(&key)
    }

    /// Make sure that the file can be written, before hours are spent on captions.
    pub fn prepare(&mut self) -> Result<(), Failure> {
        self.opened().map(drop).map_err(|error| self.failed(&error))
    }

    /// Remove the file if nothing was written to it.
    pub fn finish(&mut self) {
        let Some(file) = self.file.take() else { return };
        // Under the lock: another process may be about to write the first row.
        if os::try_lock(&file).is_ok()
            && os::is_at(&file, &self.path).unwrap_or(false)
            && file.metadata().is_ok_and(|facts| facts.len() == 0)
        {
            let _ = std::fs::remove_file(&self.path);
        }
    }

    /// Read the rows that other processes have written.
    pub fn refresh(&mut self) -> io::Result<()> {
        let Some(mut file) = self.file.as_ref() else { return Ok(()) };
        let (mut chunk, csv) = (CHUNK, self.kind == Kind::Csv);
        loop {
            file.seek(SeekFrom::Start(self.read))?;
            let mut bytes = Vec::new();
            file.take(chunk).read_to_end(&mut bytes)?;
            let ended = (bytes.len() as u64) < chunk;
            // A character that is cut in two belongs to the next read.
            let text = match std::str::from_utf8(&bytes) {
                Ok(text) => text,
                Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default(),
            };
            let contents = rows::read(text, csv, self.read == 0);
            for row in &contents.rows {
                self.keys.insert(self.kind.key(&row.path, &row.prompt));
            }
            if contents.whole > 0 {
                self.unended = !text[..contents.whole].ends_with('\n');
            }
            self.read += contents.whole as u64;
            match (ended, contents.whole) {
                (true, _) => return Ok(()),
                (false, 0) => chunk *= 2,
                (false, _) => chunk = CHUNK,
            }
        }
    }

    /// Append rows, each with its key. A row of a key that is there already is left out, unless it shall `replace` it: then the
    /// later one counts ([`Table::compact`]). Fails if the file cannot be written; it is as it was before.
    pub fn append(&mut self, rows: &[(u64, String)], replace: bool) -> io::Result<()> {
        self.lock()?;
        let appended = self.append_locked(rows, replace);
        if let Some(file) = &self.file {
            // One that is not supported was not taken.
            let _ = os::unlock(file);
        }
        appended
    }

    fn append_locked(&mut self, rows: &[(u64, String)], replace: bool) -> io::Result<()> {
        self.refresh()?;
        let mut text = String::new();
        if self.read == 0 {
            text += &self.kind.head();
        } else if self.unended {
            text.push('\n');
        }
        let head = text.len();
        let fresh = rows.iter().filter(|(key, _)| replace || !self.keys.contains(key));
        fresh.for_each(|(_, row)| text += row);
        if text.len() == head {
            return Ok(());
        }
        self.tail()?;
        let Some(mut file) = self.file.as_ref() else { return Ok(()) };
        file.set_len(self.read)?;
        file.seek(SeekFrom::Start(self.read))?;
        let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_data());
        if let Err(error) = written {
            // Best effort: an incomplete row is cut off by the next writer.
            let _ = file.set_len(self.read);
            return Err(error);
        }
        self.read += text.len() as u64;
        self.unended = false;
        self.keys.extend(rows.iter().map(|(key, _)| key));
        Ok(())
    }

    /// Make sure that what follows the rows that were read is one incomplete row, and not rows after a damaged place.
    fn tail(&self) -> io::Result<()> {
        let Some(mut file) = self.file.as_ref() else { return Ok(()) };
        file.seek(SeekFrom::Start(self.read))?;
        let mut tail = Vec::new();
        file.take(CHUNK).read_to_end(&mut tail)?;
        let several = match self.kind {
            // A line break and a single quote begin a record; within a field, a quote is doubled.
            Kind::Csv => tail.windows(3).any(|w| w.starts_with(b"\n\"") && w[2] != b'"'),
            _ => tail.contains(&b'\n'),
        };
        match several {
            true => {
                let error = format!("it is damaged after byte {}: repair the row there", self.read);
                Err(io::Error::new(io::ErrorKind::InvalidData, error))
            }
            false => Ok(()),
        }
    }

    /// Keep only the last row of each key, in the place of the first. If that fails, the file is as it was before.
    pub fn compact(&mut self) -> io::Result<()> {
        if self.file.is_none() {
            return Ok(());
        }
        self.lock()?;
        let text = std::fs::read_to_string(&self.path)?;
        let contents = rows::read(&text, self.kind == Kind::Csv, true);
        let mut places: HashMap<u64, usize> = HashMap::new();
        let mut kept: Vec<&str> = Vec::new();
        for row in &contents.rows {
            match places.entry(self.kind.key(&row.path, &row.prompt)) {
                std::collections::hash_map::Entry::Occupied(place) => kept[*place.get()] = &row.text,
                std::collections::hash_map::Entry::Vacant(place) => {
                    place.insert(kept.len());
                    kept.push(&row.text);
                }
            }
        }
        // Rows that nobody understands are left where they are, and so are all others.
        if kept.len() < contents.rows.len() && contents.damaged.is_empty() {
            replace(&self.path, (self.kind.head() + &kept.concat()).as_bytes())?;
        }
        // The lock belongs to the old file; others notice that theirs is gone.
        self.file = None;
        Ok(())
    }

    /// Lock the file that has the name now: another process may have replaced it.
    fn lock(&mut self) -> io::Result<()> {
        loop {
            self.opened()?;
            let Some(file) = &self.file else { continue };
            match os::lock(file) {
                Err(error) if error.kind() != io::ErrorKind::Unsupported => return Err(error),
                _ => {}
            }
            if os::is_at(file, &self.path)? {
                return Ok(());
            }
            (self.file, self.read, self.unended) = (None, 0, false);
        }
    }

    fn opened(&mut self) -> io::Result<&File> {
        if self.file.is_none() {
            if let Some(folder) = self.path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
                std::fs::create_dir_all(folder)?;
            }
            let file =
                OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&self.path)?;
            self.read = 0;
            self.file = Some(file);
        }
        self.file.as_ref().ok_or_else(|| io::Error::other("the file is not open"))
    }

    fn check(&self) -> Result<(), Failure> {
        let mut first = String::new();
        let Some(mut file) = self.file.as_ref() else { return Ok(()) };
        let mut start = vec![0; 1 << 16];
        let bytes = file.seek(SeekFrom::Start(0)).and_then(|_| file.read(&mut start)).unwrap_or(0);
        first.push_str(String::from_utf8_lossy(&start[..bytes]).lines().next().unwrap_or_default());
        let fits = match self.kind {
            Kind::Csv => first.is_empty() || first + "\n" == self.kind.head(),
            kind if self.read > 0 => {
                serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(&first)
                    .map_or(first.len() > 1000, |row| row.contains_key(kind.path_key()))
            }
            _ => bytes == 0 || first.starts_with('{'),
        };
        if fits {
            return Ok(());
        }
        Err(Failure::input(
            format!(
                "{} is no data set of this form: it has no `{}`",
                self.path.display(),
                self.kind.path_key()
            ),
            "choose another file for --dataset-file, or remove this one",
        ))
    }
}

#[cfg(test)]
mod tests;
