//! Why a training cannot begin or go on.

use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
};

use crate::{
    model::{checkpoint::CheckpointError, family::ModelError, tensor_error_text},
    record::{Failure, FailureClass},
};

/// Why a training ended badly. What was saved before stays as it was.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// The target cannot be used.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A tensor operation.
    #[error("a tensor operation failed: {}", tensor_error_text(.0))]
    Tensor(#[from] candle_core::Error),
    /// A file cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The output folder holds something else.
    #[error("{} is not empty, and holds no training that could go on", dir.display())]
    Occupied {
        /// The folder.
        dir: PathBuf,
    },
    /// The output folder holds a training that is done.
    #[error("the training in {} is finished", dir.display())]
    Finished {
        /// The folder.
        dir: PathBuf,
    },
    /// The output folder holds a training of other settings.
    #[error("the training in {} has {key} {saved}, not {asked}", dir.display())]
    Other {
        /// The folder.
        dir: PathBuf,
        /// What differs.
        key: String,
        /// Its value there.
        saved: String,
        /// Its value now.
        asked: String,
    },
    /// What was saved cannot be read.
    #[error("{}: {problem}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A folder without clips.
    #[error("there are no videos in {}", dir.display())]
    NoClips {
        /// The folder.
        dir: PathBuf,
    },
    /// A folder that cannot be listed.
    #[error("cannot list {}: {source}", dir.display())]
    Unreadable {
        /// The folder.
        dir: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// Not one clip could be used.
    #[error("none of the {count} clips could be captioned; the last one: {why}")]
    AllBroken {
        /// How many were tried.
        count: usize,
        /// What was wrong with the last.
        why: String,
    },
    /// The target computes what is no number.
    #[error("the target's states are not finite on {clip}")]
    NotFinite {
        /// The clip.
        clip: String,
    },
    /// The weights ran away.
    #[error("the loss is not finite after {steps} steps")]
    Diverged {
        /// Steps made.
        steps: usize,
    },
}

impl TrainError {
    /// About writing a file.
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
                (FailureClass::Internal, "please report it with the command")
            }
            TrainError::Write { source, .. } => match source.kind() {
                ErrorKind::StorageFull | ErrorKind::QuotaExceeded => (
                    FailureClass::Internal,
                    "make room there; the same command goes on from what was saved last",
                ),
                ErrorKind::AlreadyExists | ErrorKind::NotADirectory => {
                    (FailureClass::Input, "--out names a folder; choose one that is new or empty")
                }
                _ => (FailureClass::Input, "choose a folder that can be written for --out"),
            },
            TrainError::Occupied { .. } => (FailureClass::Usage, "choose an empty or a new folder for --out"),
            TrainError::Finished { .. } => {
                (FailureClass::Usage, "use it with --drafter, or choose another folder for --out")
            }
            TrainError::Other { .. } => (
                FailureClass::Usage,
                "repeat the settings that it was begun with, or choose another folder for --out",
            ),
            TrainError::Damaged { .. } => {
                (FailureClass::Input, "choose another folder for --out to begin anew")
            }
            TrainError::NoClips { .. } => {
                (FailureClass::Input, "put videos there, or use synthetic ones: --data scenes:2000")
            }
            TrainError::Unreadable { source, .. } => match source.kind() {
                ErrorKind::NotFound => {
                    (FailureClass::Input, "check the path, or use synthetic clips: --data scenes:2000")
                }
                ErrorKind::NotADirectory => (FailureClass::Input, "name a folder of videos"),
                _ => (FailureClass::Input, "make it readable"),
            },
            TrainError::AllBroken { .. } => {
                (FailureClass::Input, "try one of them alone: specreel caption FILE --target DIR")
            }
            TrainError::NotFinite { .. } => {
                (FailureClass::Input, "its weights are damaged, or too large for --dtype; try --dtype f32")
            }
            TrainError::Diverged { .. } => {
                (FailureClass::Input, "begin anew in another folder with a smaller --learning-rate")
            }
        };
        Failure { class, error: error.to_string(), hint: Some(hint.into()) }
    }
}
