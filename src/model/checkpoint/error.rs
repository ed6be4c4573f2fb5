//! Why a checkpoint cannot be used.

use std::path::{Path, PathBuf};

use crate::{
    model::family::{Family, is_out_of_memory},
    record::{Failure, FailureClass},
};

/// Why a checkpoint cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// A file is missing or invalid.
    #[error("{}: {problem}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A GGUF file cannot be used.
    #[error("{}: {problem}", path.display())]
    Gguf {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
        /// What to do.
        hint: &'static str,
    },
    /// A weight file got shorter after its header was read.
    #[error("{}: the file changed while it was read", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// A tensor is missing, or its shape or type is wrong.
    #[error("tensor `{name}`: {problem}")]
    Tensor {
        /// Its original name.
        name: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The progress callback stopped the loading.
    #[error("loading the checkpoint was cancelled")]
    Stopped,
}

impl CheckpointError {
    /// A problem with a file.
    pub fn file(path: &Path, problem: &str) -> Self {
        Self::File { path: path.to_owned(), problem: problem.to_owned() }
    }

    /// A problem with a tensor.
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
        let hint = match &error {
            CheckpointError::Stopped => "load the models again".into(),
            CheckpointError::Gguf { hint, .. } => (*hint).into(),
            CheckpointError::Changed { .. } => {
                "load the model again once no other program writes to the file".into()
            }
            CheckpointError::File { problem, .. } if problem.contains("mixture-of-experts") => {
                "use a dense size, such as Qwen/Qwen3-VL-8B-Instruct; specreel models known lists them".into()
            }
            CheckpointError::File { path, .. } if path.ends_with("config.json") => {
                let families = Family::ALL.map(Family::name).join(", ");
                format!(
                    "pass a checkpoint directory as downloaded from the Hugging Face hub; supported: {families}"
                )
            }
            _ => "download the whole checkpoint again: this copy is incomplete or damaged".into(),
        };
        Failure { class: FailureClass::Input, error: error.to_string(), hint: Some(hint) }
    }
}
