//! Why an operation failed, and why weights cannot be used.

pub mod gpu;

use std::path::{Path, PathBuf};

use specreel_record::{Failure, FailureClass};

use crate::{SpansError, candle};
use gpu::GpuError;

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Arguments that do not fit together.
    #[error("{0}")]
    Message(String),
    /// Ranges of visual tokens that do not fit the rows.
    #[error(transparent)]
    Spans(#[from] SpansError),
    /// A GPU through wgpu.
    #[error(transparent)]
    Gpu(#[from] GpuError),
    /// A mapped file that changed.
    #[error(transparent)]
    File(#[from] std::io::Error),
    /// An accelerator through candle.
    #[error("{}", candle::message(.0))]
    Candle(#[from] candle::Error),
}

impl Error {
    /// True if the device's memory is full.
    pub fn is_out_of_memory(&self) -> bool {
        is_out_of_memory(&self.to_string())
    }
}

/// Return an [`Error::Message`].
#[macro_export]
macro_rules! bail {
    ($($words:tt)*) => {
        return Err($crate::Error::Message(format!($($words)*)))
    };
}

/// True for out-of-memory errors of GPUs, CUDA and Metal.
pub fn is_out_of_memory(error: &str) -> bool {
    let error = error.to_lowercase();
    ["out_of_memory", "out of memory", "too large for this gpu", "failed to create metal resource"]
        .iter()
        .any(|words| error.contains(words))
}

/// Why a checkpoint cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    #[error("{}: {problem}", path.display())]
    File {
        path: PathBuf,
        problem: String,
        /// What to do; `None` to download the checkpoint again.
        hint: Option<String>,
    },
    /// A weight file got shorter after its header was read.
    #[error("{}: the file changed while it was read", path.display())]
    Changed { path: PathBuf },
    /// No tensor has this name in any layout that is known.
    #[error("tensor `{name}`: not in the weight files of {}", path.display())]
    Missing {
        name: String,
        path: PathBuf,
        /// The name that is most similar to it, if there is one.
        similar: Option<String>,
    },
    /// The shape or type of a tensor is wrong.
    #[error("tensor `{name}`: {problem}")]
    Tensor { name: String, problem: String },
    #[error("loading the checkpoint was cancelled")]
    Stopped,
}

impl CheckpointError {
    pub fn file(path: &Path, problem: &str) -> Self {
        Self::File { path: path.to_owned(), problem: problem.to_owned(), hint: None }
    }

    pub fn file_hint(path: &Path, problem: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::File { path: path.to_owned(), problem: problem.into(), hint: Some(hint.into()) }
    }

    pub fn tensor(name: &str, problem: &str) -> Self {
        Self::Tensor { name: name.to_owned(), problem: problem.to_owned() }
    }
}

impl From<CheckpointError> for Failure {
    fn from(error: CheckpointError) -> Self {
        if is_out_of_memory(&error.to_string()) {
            return Failure {
                class: FailureClass::Memory,
                error: format!("the model does not fit into the device's memory: {error}"),
                hint: Some("use smaller weights (--dtype q8_0 or q4_k), or --device cpu".into()),
            };
        }
        let names = "use a checkpoint whose tensors have the names of its family";
        let similar = match &error {
            CheckpointError::Missing { similar: Some(similar), .. } => {
                format!("{names}; the most similar one here is `{similar}`")
            }
            _ => names.to_owned(),
        };
        let hint = match &error {
            // The files are read and whole: it is not known where in them the tensor is.
            CheckpointError::Missing { .. } => &similar,
            CheckpointError::Stopped => "load the models again",
            CheckpointError::Changed { .. } => {
                "load the model again once no other program writes to the file"
            }
            CheckpointError::File { hint: Some(hint), .. } => hint,
            _ => "download the whole checkpoint again: this copy is incomplete or damaged",
        };
        Failure { class: FailureClass::Input, error: error.to_string(), hint: Some(hint.into()) }
    }
}
