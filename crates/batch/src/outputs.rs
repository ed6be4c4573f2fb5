//! What a clip still lacks, and writing it.

use super::ledger::{Done, Failed, Ledger, stamp};
use super::sidecar::{combined, hidden, replace};
use super::{claim::Claim, rows::Caption, store::Store, table::Table, *};
use specreel_os::names;
use specreel_record::FailureClass;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Need {
    Nothing,
    /// It failed in an earlier run, for this reason.
    FailedBefore(String),
    Captions(Vec<usize>),
}

/// Writes captions, and knows which clips have theirs.
pub struct Outputs {
    options: Options,
    store: Option<Box<dyn Store>>,
    table: Option<Table>,
    /// By directory of state.
    failed: HashMap<PathBuf, Ledger<Failed>>,
    done: HashMap<PathBuf, Ledger<Done>>,
    /// Clips that share a sidecar with another clip: hash of the path, and the other one.
    doubled: HashMap<u64, PathBuf>,
    /// Clips that the trainer would cache under an earlier clip's name: it would train with that clip's latents or caption.
    confused: HashMap<u64, PathBuf>,
}

impl Outputs {
    /// Open the outputs of these clips. Fails if the options contradict each other, or the data set cannot be used.
    pub fn open(options: Options, clips: &[Clip]) -> Result<Self, Failure> {
        options.check()?;
        let table = options.dataset.as_ref().map(|(kind, path)| Table::open(path, *kind)).transpose()?;
        let out = options.out_dir.as_deref();
        let doubled = shared_outputs(clips, |clip| Some(options.sidecar?.path(clip, out)));
        let confused = shared_outputs(clips, |clip| options.dataset.as_ref()?.0.cache_name(&clip.path()));
        Ok(Self {
            options,
            store: None,
            table,
            failed: HashMap::new(),
            done: HashMap::new(),
            doubled,
            confused,
        })
    }

    /// The same, with captions written to a store as well.
    #[must_use]
    pub fn with_store(self, store: Box<dyn Store>) -> Self {
        Self { store: Some(store), ..self }
    }

    /// Make sure that the outputs can be written, before hours are spent on captions.
    pub fn prepare(&mut self) -> Result<(), Failure> {
        if let Some(table) = &mut self.table {
            table.prepare()?;
        }
        if self.options.sidecar.is_some()
            && let Some(out) = &self.options.out_dir
        {
            let tried = std::fs::create_dir_all(out).and_then(|()| tempfile::tempfile_in(out).map(drop));
            tried.map_err(|error| unwritable(out, &error))?;
        }
        Ok(())
    }

    /// True if nothing is written.
    pub fn are_none(&self) -> bool {
        self.options.sidecar.is_none() && self.table.is_none() && self.store.is_none()
    }

    pub fn prompts(&self) -> &[String] {
        &self.options.prompts
    }

    /// True if captions have to say when they begin and end.
    pub fn are_timed(&self) -> bool {
        self.options.sidecar.is_some_and(Sidecar::is_timed) || self.store.is_some()
    }

    /// What a clip lacks; true until a [`Outputs::claim`] that was taken before is dropped. Fails if it can have no output.
    pub fn need(&mut self, clip: &Clip) -> Result<Need, Failure> {
        if let Some(other) = self.doubled.get(&own_hash(clip)) {
            let sidecar = self.sidecar(clip).unwrap_or_default();
            return Err(Failure::input(
                format!(
                    "video {}: its sidecar {} belongs to {}",
                    clip.path().display(),
                    sidecar.display(),
                    other.display()
                ),
                "rename one of the two clips, or use --dataset",
            ));
        }
        if let Some(other) = self.confused.get(&own_hash(clip)) {
            return Err(Failure::input(
                format!(
                    "video {}: the trainer would keep it in the same cache file as {}",
                    clip.path().display(),
                    other.display()
                ),
                "rename one of the two clips",
            ));
        }
        let count = self.options.prompts.len();
        let all = || (0..count).collect::<Vec<_>>();
        let table = match &mut self.table {
            Some(table) => {
                let path = table.kind().path_of(clip, table.path())?;
                Some((table, path))
            }
            None => None,
        };
        let mut lacks = match self.options.existing {
            Existing::Skip => {
                let sidecar = self.options.sidecar.map(|s| s.path(clip, self.options.out_dir.as_deref()));
                let lacks_sidecar = sidecar.is_some_and(|path| path.symlink_metadata().is_err());
                match table {
                    _ if lacks_sidecar => all(),
                    None if self.options.sidecar.is_none() && self.store.is_none() => all(),
                    Some((table, path)) => {
                        table.refresh().map_err(|error| table.failed(&error))?;
                        let lacks = |prompt: &String| !table.has(table.kind().key(&path, prompt));
                        let prompts = self.options.prompts.iter().enumerate();
                        prompts.filter(|(_, prompt)| lacks(prompt)).map(|(number, _)| number).collect()
                    }
                    None => Vec::new(),
                }
            }
            _ => match self.is_done(clip) {
                true => Vec::new(),
                false => all(),
            },
        };
        if let Some(store) = self.store.as_mut().filter(|_| self.options.existing == Existing::Skip) {
            lacks.extend(store.lacks(clip, &self.options.prompts)?);
            lacks.sort_unstable();
            lacks.dedup();
        }
        if lacks.is_empty() {
            return Ok(Need::Nothing);
        }
        if !self.options.retry_failed
            && !self.are_none()
            && let Some(line) = self.failures(clip).get(clip.id())
            && let Some(error) = line.error.clone()
            && Some(line.stamp) == stamp(&clip.path())
        {
            return Ok(Need::FailedBefore(error));
        }
        Ok(Need::Captions(lacks))
    }

    /// Claim a clip, so that no other process captions it; `None` if one does. Fails if the claim cannot be written.
    pub fn claim(&mut self, clip: &Clip) -> Result<Option<Vec<Claim>>, Failure> {
        if self.options.existing != Existing::Skip {
            let state = self.state(clip);
            self.jobs(clip).hold().map_err(|error| unwritable(&state, &error))?;
        }
        let mut claims = Vec::new();
        for path in self.locks(clip) {
            match Claim::take(&path).map_err(|error| unwritable(&path, &error))? {
                Some(claim) => claims.push(claim),
                None => return Ok(None),
            }
        }
        // Its directory is tidied at the end.
        self.failures(clip);
        Ok(Some(claims))
    }

    /// The files that are locked while a clip is captioned.
    fn locks(&self, clip: &Clip) -> impl Iterator<Item = PathBuf> + use<> {
        let sidecar = self.sidecar(clip).map(|path| hidden(&path, "lock"));
        let row = format!("{:016x}.lock", own_hash(clip));
        let row =
            (self.table.is_some() || self.store.is_some()).then(|| self.state(clip).join("claims").join(row));
        sidecar.into_iter().chain(row)
    }

    /// Remove a killed process's leftovers next to a finished clip.
    pub fn tidy(&mut self, clip: &Clip) {
        for path in self.locks(clip).filter(|path| path.exists()) {
            // Another process may be about to say that the clip is done.
            drop(Claim::take(&path));
            self.failures(clip);
        }
    }

    /// Write the captions of a claimed clip. Fails if they cannot be written; what existed stays.
    pub fn write(&mut self, clip: &Clip, captions: &[Caption]) -> Result<(), Failure> {
        let change = self.write_sidecar(clip, captions)?;
        if let Some(table) = &mut self.table {
            let path = table.kind().path_of(clip, table.path())?;
            let kind = table.kind();
            let row = |caption: &Caption| (kind.key(&path, &caption.prompt), kind.row(&path, caption));
            let rows: Vec<_> = captions.iter().map(row).collect();
            let replaces = self.options.existing == Existing::Overwrite;
            table.append(&rows, replaces).map_err(|error| table.failed(&error))?;
        }
        if let Some(store) = &mut self.store {
            store.write(clip, captions)?;
        }
        if self.options.existing == Existing::Overwrite {
            self.mark(clip, change)?;
        }
        let failures = self.failures(clip);
        if failures.get(clip.id()).is_some_and(|line| line.error.is_some()) {
            self.remember(clip, None);
        }
        Ok(())
    }

    fn write_sidecar(&mut self, clip: &Clip, captions: &[Caption]) -> Result<Option<(u64, u64)>, Failure> {
        let Some((kind, path)) = self.options.sidecar.zip(self.sidecar(clip)) else { return Ok(None) };
        let failed = |error: io::Error| unwritable(&path, &error);
        let new = kind.contents(clip, captions, self.options.cues);
        let existing = self.options.existing;
        match existing {
            // Only a row was missing.
            Existing::Skip if path.symlink_metadata().is_ok() => return Ok(None),
            Existing::Skip | Existing::Overwrite => replace(&path, new.as_bytes()).map_err(failed)?,
            Existing::Append | Existing::Prepend => {
                let old = match std::fs::read_to_string(&path) {
                    Ok(old) => old,
                    Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
                    Err(error) => return Err(failed(error)),
                };
                let new = combined(&old, &new, existing == Existing::Append);
                let change = (super::hash(old.as_bytes()), super::hash(new.as_bytes()));
                // First, so that a run that is killed in between leaves a record.
                self.mark(clip, Some(change))?;
                replace(&path, new.as_bytes()).map_err(failed)?;
            }
        }
        Ok(None)
    }

    /// Remember that a clip failed; only for problems of the file itself, which the next run would find again.
    pub fn fail(&mut self, clip: &Clip, failure: &Failure) {
        let known = |line: &Failed| {
            line.error.as_ref() == Some(&failure.error) && Some(line.stamp) == stamp(&clip.path())
        };
        if failure.class == FailureClass::Input
            && !self.are_none()
            && !self.failures(clip).get(clip.id()).is_some_and(known)
        {
            self.remember(clip, Some(failure.error.clone()));
        }
    }

    /// The run is over. If it is `complete`, it came to every clip, and the next one is another run; but text is not extended
    /// again as long as clips `failed`.
    pub fn finish(&mut self, complete: bool, failed: usize) -> Result<(), Failure> {
        if let Some(table) = &mut self.table {
            if complete && self.options.existing == Existing::Overwrite {
                table.compact().map_err(|error| table.failed(&error))?;
            }
            table.finish();
        }
        if complete && (failed == 0 || self.options.existing == Existing::Overwrite) {
            self.done.values_mut().for_each(Ledger::release);
        }
        for (state, ledger) in &mut self.failed {
            // Another process may have added clips that failed.
            ledger.refresh();
            if ledger.is_clear(|line| line.error.is_some()) {
                ledger.remove();
            }
            let _ = std::fs::remove_dir(state.join("claims"));
            let _ = std::fs::remove_dir(state);
        }
        Ok(())
    }

    pub fn sidecar(&self, clip: &Clip) -> Option<PathBuf> {
        self.options.sidecar.map(|sidecar| sidecar.path(clip, self.options.out_dir.as_deref()))
    }

    /// The hidden directory with records about clips beyond their outputs.
    fn state(&self, clip: &Clip) -> PathBuf {
        match (&self.options.dataset, &self.options.out_dir) {
            (Some((_, file)), _) => hidden(file, "specreel"),
            (None, Some(out)) => out.join(".specreel"),
            (None, None) if self.options.sidecar.is_none() && self.store.is_some() => {
                self.store.as_ref().map(|store| store.state()).unwrap_or_default()
            }
            (None, None) => clip.root.join(".specreel"),
        }
    }

    fn failures(&mut self, clip: &Clip) -> &mut Ledger<Failed> {
        let state = self.state(clip);
        self.failed.entry(state).or_insert_with_key(|state| Ledger::open(state.join("failed.jsonl")))
    }

    /// A run continues without this knowledge.
    fn remember(&mut self, clip: &Clip, error: Option<String>) {
        let Some(stamp) = stamp(&clip.path()) else { return };
        let video = clip.relative.display().to_string();
        let line = Failed { id: clip.id(), video, stamp, error };
        if let Err(error) = self.failures(clip).add(line) {
            tracing::warn!(%error, "cannot remember which clips failed");
        }
    }

    fn jobs(&mut self, clip: &Clip) -> &mut Ledger<Done> {
        let state = self.state(clip);
        let Options { existing, prompts, job, .. } = &self.options;
        let job = super::hash(format!("{existing:?}\0{prompts:?}\0{job}").as_bytes());
        let path = state.join(format!("run-{job:016x}.jsonl"));
        let ledger = self.done.entry(state).or_insert_with(|| Ledger::open(path));
        ledger.refresh();
        ledger
    }

    fn mark(&mut self, clip: &Clip, change: Option<(u64, u64)>) -> Result<(), Failure> {
        let id = own_hash(clip);
        let state = self.state(clip);
        self.jobs(clip).add(Done { id, change }).map_err(|error| unwritable(&state, &error))
    }

    /// True if this run, or the interrupted one that it resumes, has written the clip's outputs.
    fn is_done(&mut self, clip: &Clip) -> bool {
        let sidecar = self.sidecar(clip);
        let line = self.jobs(clip).get(own_hash(clip)).cloned();
        match line {
            None => false,
            Some(Done { change: None, .. }) => true,
            Some(Done { change: Some((before, after)), .. }) => {
                let now = sidecar.and_then(|path| std::fs::read(path).ok()).unwrap_or_default();
                before == after || super::hash(&now) != before
            }
        }
    }
}

/// The clips of which an earlier one has the same output: the hashes of their paths, and the earlier one.
fn shared_outputs(clips: &[Clip], output: impl Fn(&Clip) -> Option<PathBuf>) -> HashMap<u64, PathBuf> {
    let mut first: HashMap<u64, &Clip> = HashMap::new();
    let mut doubled = HashMap::new();
    for clip in clips {
        let Some(output) = output(clip) else { continue };
        match first.entry(super::hash(names::bytes(&output))) {
            std::collections::hash_map::Entry::Vacant(place) => drop(place.insert(clip)),
            std::collections::hash_map::Entry::Occupied(other) => {
                doubled.insert(own_hash(clip), other.get().path());
            }
        }
    }
    doubled
}

fn own_hash(clip: &Clip) -> u64 {
    let path = clip.path();
    let path = std::path::absolute(&path).unwrap_or(path);
    super::hash(names::bytes(&path))
}

/// True if a run cannot continue after this failure to write: the disk is full.
pub(super) fn is_fatal(failure: &Failure) -> bool {
    failure.class == FailureClass::Internal
}

#[cfg(test)]
pub(crate) mod tests;
