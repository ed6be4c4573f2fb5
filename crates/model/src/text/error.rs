//! Errors of tokenizers.

use std::path::PathBuf;

use specreel_record::{Failure, FailureClass};

/// An error of a checkpoint's tokenizer.
#[derive(Debug, thiserror::Error)]
pub enum TextError {
    #[error("cannot read {path}: {source}")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{path}: {problem}")]
    Parse { path: PathBuf, problem: String },
    /// The tokenizer in a GGUF file cannot be used.
    #[error("{path}: {problem}")]
    Vocabulary { path: PathBuf, problem: String },
    #[error("{path} has no token {token}")]
    MissingToken { path: PathBuf, token: String },
    #[error("{path} has {token} as id {id}, but config.json has {expected} for visual tokens")]
    Placeholder {
        path: PathBuf,
        token: String,
        id: u32,
        /// The id in `config.json`.
        expected: u32,
    },
    #[error("{dir}: no `eos_token_id` in generation_config.json or config.json")]
    NoEnd { dir: PathBuf },
    /// An end token that the tokenizer does not have.
    #[error("`eos_token_id` is {id}, but the tokenizer has {vocabulary} ids")]
    EndOutside { id: u32, vocabulary: usize },
    #[error("cannot encode the text: {0}")]
    Encode(String),
    #[error("target and drafter have different vocabularies: {0}")]
    Mismatch(#[from] Mismatch),
}

impl From<TextError> for Failure {
    fn from(error: TextError) -> Self {
        let (class, hint) = match &error {
            TextError::Encode(_) => (FailureClass::Internal, None),
            TextError::Mismatch(_) => (FailureClass::Input, Some("choose a drafter of the target's family")),
            TextError::Vocabulary { .. } => (
                FailureClass::Input,
                Some("use a GGUF file of a supported model, or a directory in Hugging Face layout"),
            ),
            _ => (FailureClass::Input, Some("download the checkpoint's tokenizer and config files again")),
        };
        Failure { class, error: error.to_string(), hint: hint.map(Into::into) }
    }
}

/// The first difference between two vocabularies.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    #[error("{ours} ids and {theirs} ids")]
    Size { ours: usize, theirs: usize },
    #[error("id {id} is {ours:?} and {theirs:?}")]
    Token { id: u32, ours: String, theirs: String },
}
