//! Errors of tokenizers.

use std::path::PathBuf;

use specreel_record::{Failure, FailureClass};

/// An error of a checkpoint's tokenizer.
#[derive(Debug, thiserror::Error)]
pub enum TextError {
    /// A file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A file is invalid.
    #[error("{path}: {problem}")]
    Parse {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// The tokenizer in a GGUF file cannot be used.
    #[error("{path}: {problem}")]
    Vocabulary {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// The tokenizer lacks a required token.
    #[error("{path} has no token {token}")]
    MissingToken {
        /// The tokenizer's file.
        path: PathBuf,
        /// The token.
        token: String,
    },
    /// The video's placeholder has another id.
    #[error("{path} has {token} as id {id}, but config.json has {expected} for visual tokens")]
    Placeholder {
        /// The tokenizer's file.
        path: PathBuf,
        /// The placeholder.
        token: String,
        /// Its id.
        id: u32,
        /// The id in `config.json`.
        expected: u32,
    },
    /// No file sets the end tokens.
    #[error("{dir}: no `eos_token_id` in generation_config.json or config.json")]
    NoEnd {
        /// The checkpoint.
        dir: PathBuf,
    },
    /// An end token that the tokenizer does not have.
    #[error("`eos_token_id` is {id}, but the tokenizer has {vocabulary} ids")]
    EndOutside {
        /// The id.
        id: u32,
        /// Number of ids.
        vocabulary: usize,
    },
    /// Encoding failed.
    #[error("cannot encode the text: {0}")]
    Encode(String),
    /// Target and drafter have different vocabularies.
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
    /// Different numbers of ids.
    #[error("{ours} ids and {theirs} ids")]
    Size {
        /// Ids in this vocabulary.
        ours: usize,
        /// Ids in the other.
        theirs: usize,
    },
    /// The lowest id with different tokens.
    #[error("id {id} is {ours:?} and {theirs:?}")]
    Token {
        /// The id.
        id: u32,
        /// Its token in this vocabulary.
        ours: String,
        /// Its token in the other.
        theirs: String,
    },
}
