//! Errors of chat templates.

use std::path::PathBuf;

use crate::text::TextError;
use specreel_record::{Failure, FailureClass};

/// An error of a chat template.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    /// A file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A file does not contain a template in any known form.
    #[error("{path}: {problem}")]
    Parse {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// The template does not compile, or fails while rendering.
    #[error("the chat template of {origin} failed: {problem}")]
    Render {
        /// The source of the template.
        origin: String,
        /// The error, with its line.
        problem: String,
    },
    /// The template ran for too long.
    #[error("the chat template of {origin} does not terminate")]
    Endless {
        /// The source of the template.
        origin: String,
    },
    /// The template does not output the prompt exactly once.
    #[error("the chat template of {origin} outputs the prompt {found} times, expected 1")]
    Prompt {
        /// The source of the template.
        origin: String,
        /// How often it is in the output.
        found: usize,
    },
    /// The text around the prompt cannot be encoded.
    #[error(transparent)]
    Text(#[from] TextError),
}

impl From<TemplateError> for Failure {
    fn from(error: TemplateError) -> Self {
        let text = error.to_string();
        match error {
            TemplateError::Text(inner) => inner.into(),
            _ => Failure {
                class: FailureClass::Input,
                error: text,
                hint: Some("download the checkpoint's chat template again, or choose another model".into()),
            },
        }
    }
}
