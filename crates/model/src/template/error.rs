//! Errors of chat templates.

use std::path::PathBuf;

use crate::text::TextError;
use specreel_record::{Failure, FailureClass};

#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    #[error("cannot read {path}: {source}")]
    Read { path: PathBuf, source: std::io::Error },
    /// A file does not contain a template in any known form.
    #[error("{path}: {problem}")]
    Parse { path: PathBuf, problem: String },
    /// The template does not compile, or fails while rendering.
    #[error("the chat template of {origin} failed: {problem}")]
    Render { origin: String, problem: String },
    #[error("the chat template of {origin} does not terminate")]
    Endless { origin: String },
    /// The template does not output the prompt exactly once.
    #[error("the chat template of {origin} outputs the prompt {found} times, expected 1")]
    Prompt { origin: String, found: usize },
    /// The template does not output the system message exactly once.
    #[error("the chat template of {origin} outputs the system message {found} times, expected 1")]
    System { origin: String, found: usize },
    /// The conversation has calls of tools, and the template none.
    #[error("the chat template of {origin} has no form for calls of tools")]
    NoTools { origin: String },
    /// A call would become special tokens.
    #[error("the call of the tool `{name}` holds the special token {token}")]
    CallWithToken { name: String, token: String },
    /// The text around the prompt cannot be encoded.
    #[error(transparent)]
    Text(#[from] TextError),
}

impl From<TemplateError> for Failure {
    fn from(error: TemplateError) -> Self {
        let text = error.to_string();
        match error {
            TemplateError::Text(inner) => inner.into(),
            TemplateError::System { .. } => Failure {
                class: FailureClass::Input,
                error: text,
                hint: Some("leave the system message out, or put it into the prompt".into()),
            },
            TemplateError::NoTools { .. } | TemplateError::CallWithToken { .. } => Failure {
                class: FailureClass::Input,
                error: text,
                hint: Some(
                    "leave calls and results of tools out of the conversation, and write what they found into a question".into(),
                ),
            },
            _ => Failure {
                class: FailureClass::Input,
                error: text,
                hint: Some("download the checkpoint's chat template again, or choose another model".into()),
            },
        }
    }
}
