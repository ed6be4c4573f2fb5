//! The kept weights of a checkpoint that is being loaded.

use std::{
    io,
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
    time::SystemTime,
};

use crate::WeightCache;
use crate::weight_cache::{
    ENDING, LEAST_CHECKPOINT, SOURCES,
    file::{CacheFile, CachedMatrix, Index},
    source::{self, CheckpointState, Sources},
    touch,
    writer::CacheWriter,
};
use crate::{Checkpoint, hub::free_space};
use specreel_record::units::bytes;
use specreel_tensor::{
    CheckpointError,
    kept::{Keep, KeptMatrix},
};

/// Bytes that stay free on the volume.
const FREE: u64 = 1 << 30;

/// The kept weights of a checkpoint that is being loaded. The default keeps none.
#[derive(Default)]
pub struct KeptWeights {
    state: Mutex<CacheState>,
    /// What users should know.
    note: Mutex<Option<String>>,
}

#[derive(Default)]
enum CacheState {
    /// Weights are converted and not kept.
    #[default]
    Off,
    Mapped(CacheFile),
    /// A file lacks weights that this version of the program asks for.
    Lacking(PathBuf),
    /// Weights are converted and written.
    Writing {
        writer: CacheWriter,
        /// The files before they were read.
        source: Option<CheckpointState>,
        opened: SystemTime,
    },
}

impl KeptWeights {
    fn state(&self) -> MutexGuard<'_, CacheState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What users should know: why weights are not kept.
    pub fn note(&self) -> Option<String> {
        self.note.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// See [`Checkpoint::open_weight_cache`].
    pub(crate) fn open(
        &self,
        cache: &WeightCache,
        checkpoint: &Checkpoint,
        variant: &str,
        expected: u64,
        waiting: usize,
    ) -> Result<(), CheckpointError> {
        // GGUF files are mapped as they are.
        if checkpoint.files().gguf().is_some() || checkpoint.bytes() < LEAST_CHECKPOINT {
            return Ok(());
        }
        let model = checkpoint.files().name();
        let (shards, conversion) = (checkpoint.shards(), checkpoint.conversion());
        let id = source::id(
            shards,
            &if conversion.is_empty() { variant.to_owned() } else { format!("{variant}\0{conversion}") },
        )?;
        let (opened, source) = (SystemTime::now(), source_of(checkpoint));
        let path = cache.path(&id, ENDING);
        if path.exists() {
            match CacheFile::open(&path) {
                Ok(file) if Self::is_of(cache, &id, &file, checkpoint, source.as_ref(), opened)? => {
                    touch(&path);
                    tracing::info!("weights of {model} ({variant}) mapped from {}", path.display());
                    read_ahead(&file);
                    *self.state() = CacheState::Mapped(file);
                    return Ok(());
                }
                Ok(_) => tracing::info!("weight cache: {} is of other weights", path.display()),
                Err(problem) => tracing::warn!("weight cache: {} is ignored: {problem}", path.display()),
            }
        }
        let index = Index { model: model.clone(), variant: variant.to_owned(), matrices: Vec::new() };
        let why = if expected > cache.limit {
            format!(
                "they take {}, more than the limit of {} (weight_cache_size)",
                bytes(expected),
                bytes(cache.limit)
            )
        } else if let Some(free) = free_space(&cache.dir).filter(|free| *free < expected + FREE) {
            format!("they take {}, and {} are free in {}", bytes(expected), bytes(free), cache.dir.display())
        } else {
            match CacheWriter::start(cache.clone(), id, index, waiting) {
                Ok(writer) => {
                    tracing::info!(
                        "weights of {model} ({variant}) are converted, and kept in {}",
                        path.display()
                    );
                    *self.state() = CacheState::Writing { writer, source, opened };
                    return Ok(());
                }
                // Another process keeps them at this moment.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    tracing::info!("weight cache: another process is writing {}", path.display());
                    return Ok(());
                }
                Err(error) => format!("{}: {error}", cache.dir.display()),
            }
        };
        tracing::warn!("weight cache: the weights of {model} are not kept: {why}");
        let note = format!("the converted weights of {model} are not kept for the next start: {why}");
        *self.note.lock().unwrap_or_else(PoisonError::into_inner) = Some(note);
        Ok(())
    }

    /// True if a file was made from the weights of this checkpoint.
    fn is_of(
        cache: &WeightCache,
        id: &str,
        file: &CacheFile,
        checkpoint: &Checkpoint,
        source: Option<&CheckpointState>,
        opened: SystemTime,
    ) -> Result<bool, CheckpointError> {
        let list = cache.path(id, SOURCES);
        let sources = Sources::read(&list, file.hash);
        let place = place(checkpoint);
        if let Some(source) = source.filter(|source| sources.contains(source)) {
            if !sources.knows(&place) {
                sources.add(source.clone(), place, &list);
            }
            return Ok(true);
        }
        tracing::info!(
            "weight cache: comparing {} with its kept weights",
            checkpoint.files().path().display()
        );
        let mut tensors: Vec<&(String, u64)> = file.index.matrices.iter().flat_map(|m| &m.tensors).collect();
        tensors.sort();
        tensors.dedup();
        for (name, hash) in tensors {
            if checkpoint.hash(name)? != Some(*hash) {
                checkpoint.restart_progress();
                return Ok(false);
            }
        }
        checkpoint.restart_progress();
        // Only if the files did not change while they were read.
        if let Some(source) = source.filter(|source| source.is_settled(opened))
            && source_of(checkpoint).as_ref() == Some(source)
        {
            sources.add(source.clone(), place, &list);
        }
        Ok(true)
    }

    /// True if converted weights are written.
    pub(crate) fn is_writing(&self) -> bool {
        matches!(*self.state(), CacheState::Writing { .. })
    }

    /// A matrix of the mapped file.
    pub(crate) fn get(&self, key: &str, shape: [usize; 2]) -> Option<KeptMatrix> {
        let mut state = self.state();
        let CacheState::Mapped(file) = &*state else { return None };
        let kept = file.matrix(key, shape);
        if kept.is_none() {
            *state = lacking(file, key, shape);
        }
        kept
    }

    /// Keep a matrix that was made from these tensors, with the hashes of their bytes. One that a mapped file should have had is
    /// missing there, or in a format that is not used.
    pub(crate) fn put(&self, key: &str, kept: Box<dyn Keep>, shape: [usize; 2], tensors: Vec<(String, u64)>) {
        let mut state = self.state();
        match &*state {
            CacheState::Writing { writer, .. } => {
                let ([outputs, inputs], key, format) = (shape, key.to_owned(), kept.format());
                let matrix = CachedMatrix { key, format, outputs, inputs, arrays: Vec::new(), tensors };
                writer.matrix(matrix, kept);
            }
            CacheState::Mapped(file) => *state = lacking(file, key, shape),
            CacheState::Lacking(_) | CacheState::Off => {}
        }
    }

    /// The checkpoint was loaded: complete the file in the background. Without this, it is discarded.
    pub fn finish(&self, checkpoint: &Checkpoint) {
        // Not in the `match`: the lock would be held to its end.
        let state = std::mem::take(&mut *self.state());
        match state {
            CacheState::Writing { writer, source, opened } => {
                if source.is_none() || source_of(checkpoint) == source {
                    let source = source.filter(|source| source.is_settled(opened));
                    writer.end(source.map(|source| (source, place(checkpoint))));
                } else {
                    tracing::warn!(
                        "weight cache: the weights of {} changed while they were read, and are not kept",
                        checkpoint.files().path().display()
                    );
                }
            }
            CacheState::Lacking(path) => {
                let _ = std::fs::remove_file(path);
            }
            mapped @ CacheState::Mapped(_) => *self.state() = mapped,
            CacheState::Off => {}
        }
    }
}

fn lacking(file: &CacheFile, key: &str, [outputs, inputs]: [usize; 2]) -> CacheState {
    let path = file.map.path();
    tracing::warn!("weight cache: {} has no usable `{key}` of {outputs} x {inputs}", path.display());
    CacheState::Lacking(path.to_owned())
}

fn source_of(checkpoint: &Checkpoint) -> Option<CheckpointState> {
    CheckpointState::of(checkpoint.shards(), checkpoint.files().path())
}

fn place(checkpoint: &Checkpoint) -> PathBuf {
    let dir = checkpoint.files().path();
    std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned())
}

/// Ask the system to read all matrices but the embedding table, of which few rows are used.
fn read_ahead(file: &CacheFile) {
    let ends =
        |matrix: &CachedMatrix| matrix.arrays.iter().map(|(at, length, _)| at.saturating_add(*length)).max();
    let end = file.index.matrices.iter().filter(|m| m.key != "table").filter_map(ends).max().unwrap_or(0);
    let map = std::sync::Arc::clone(&file.map);
    // The call may wait for the disk.
    let thread = std::thread::Builder::new().name("read-ahead".into());
    let _ = thread.spawn(move || map.read_ahead_to(end as usize));
}
