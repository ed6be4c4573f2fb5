//! Training errors.

use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
};

use specreel_model::family::ModelError;
use specreel_record::{Failure, FailureClass};
use specreel_tensor::CheckpointError;

impl From<candle_core::Error> for TrainError {
    fn from(error: candle_core::Error) -> Self {
        Self::Tensor(error.into())
    }
}

/// Why a training run failed. Checkpoints saved before stay as they are.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// The target cannot be used.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A tensor operation failed.
    #[error("a tensor operation failed: {0}")]
    Tensor(#[from] specreel_tensor::Error),
    /// A file cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: std::io::Error },
    /// The output directory is not empty and holds no training run.
    #[error("{} is not empty and holds no training run", dir.display())]
    Occupied { dir: PathBuf },
    /// The output directory holds a finished training run.
    #[error("the training run in {} is finished", dir.display())]
    Finished { dir: PathBuf },
    /// The output directory holds a training run with other options.
    #[error("the training run in {} has {key} {saved}, not {asked}", dir.display())]
    Other { dir: PathBuf, key: String, saved: String, asked: String },
    #[error("{}: {problem}", path.display())]
    Damaged { path: PathBuf, problem: String },
    #[error("no videos in {}", dir.display())]
    NoClips { dir: PathBuf },
    #[error("cannot list {}: {source}", dir.display())]
    Unreadable { dir: PathBuf, source: std::io::Error },
    #[error("none of the {count} clips can be captioned; the last error: {why}")]
    AllBroken { count: usize, why: String },
    #[error("the target's states are not finite on {clip}")]
    NotFinite { clip: String },
    #[error("the loss is not finite after {steps} steps")]
    Diverged { steps: usize },
}

impl TrainError {
    pub(super) fn write(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Write { path: path.to_owned(), source }
    }
}

impl From<CheckpointError> for TrainError {
    fn from(error: CheckpointError) -> Self {
        Self::Model(error.into())
    }
}

impl From<TrainError> for Failure {
    fn from(error: TrainError) -> Self {
        let error = match error {
            TrainError::Model(model) => return model.into(),
            other => other,
        };
        let (class, hint) = match &error {
            TrainError::Model(_) | TrainError::Tensor(_) => {
                (FailureClass::Internal, "please report this with the command")
            }
            TrainError::Write { source, .. } => match source.kind() {
                ErrorKind::StorageFull | ErrorKind::QuotaExceeded => (
                    FailureClass::Internal,
                    "free some disk space; the same command resumes from the last checkpoint",
                ),
                ErrorKind::AlreadyExists | ErrorKind::NotADirectory => {
                    (FailureClass::Input, "choose a new or empty directory for --out")
                }
                _ => (FailureClass::Input, "choose a writable directory for --out"),
            },
            TrainError::Occupied { .. } => (FailureClass::Usage, "choose a new or empty directory for --out"),
            TrainError::Finished { .. } => {
                (FailureClass::Usage, "use it with --drafter, or choose another directory for --out")
            }
            TrainError::Other { .. } => {
                (FailureClass::Usage, "use its options, or choose another directory for --out")
            }
            TrainError::Damaged { .. } => {
                (FailureClass::Input, "choose another directory for --out to start over")
            }
            TrainError::NoClips { .. } => {
                (FailureClass::Input, "put videos there, or use synthetic ones: --data scenes:2000")
            }
            TrainError::Unreadable { source, .. } => match source.kind() {
                ErrorKind::NotFound => {
                    (FailureClass::Input, "check the path, or use synthetic clips: --data scenes:2000")
                }
                ErrorKind::NotADirectory => (FailureClass::Input, "name a directory of videos"),
                _ => (FailureClass::Input, "make it readable"),
            },
            TrainError::AllBroken { .. } => {
                (FailureClass::Input, "try a single one: specreel caption FILE --target DIR")
            }
            TrainError::NotFinite { .. } => {
                (FailureClass::Input, "its weights are damaged, or too large for --dtype; try --dtype f32")
            }
            TrainError::Diverged { .. } => {
                (FailureClass::Input, "start over in another directory with a smaller --learning-rate")
            }
        };
        Failure { class, error: error.to_string(), hint: Some(hint.into()) }
    }
}
