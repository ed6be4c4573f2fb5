//! Errors of the studio.

use std::{ops::Range, path::PathBuf};

use specreel_record::{Failure, FailureClass};

#[derive(Debug, thiserror::Error)]
pub enum StudioError {
    #[error("the studio needs a terminal, but standard output is not one")]
    NoTerminal,
    #[error("cannot {doing} the terminal: {source}")]
    Terminal {
        /// What was tried: `set up`, `draw on`, `read from`.
        doing: &'static str,
        source: std::io::Error,
    },
    #[error("cannot read {}: {source}", .file.display())]
    Read { file: PathBuf, source: std::io::Error },
    #[error("{file}:{line}: {key}: {problem}")]
    Invalid { file: String, line: usize, key: String, problem: String, hint: String },
    #[error("unknown theme `{name}`")]
    NoTheme { name: String, known: String },
}

impl StudioError {
    /// An entry of a TOML file is invalid; `at` is its byte range in `text`.
    pub(crate) fn invalid(
        (file, text): (&str, &str),
        at: Range<usize>,
        key: impl Into<String>,
        problem: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        let before = text.get(..at.start).unwrap_or(text);
        let line = 1 + before.matches('\n').count();
        Self::Invalid { file: file.into(), line, key: key.into(), problem: problem.into(), hint: hint.into() }
    }

    pub(crate) fn not_toml((file, text): (&str, &str), error: &toml::de::Error, hint: &str) -> Self {
        let at = error.span().unwrap_or_default();
        Self::invalid((file, text), at, "invalid TOML", error.message(), hint)
    }

    pub fn hint(&self) -> Option<String> {
        match self {
            StudioError::NoTerminal => {
                Some("run it in a terminal, or use `specreel caption VIDEO` for plain text".into())
            }
            StudioError::Terminal { .. } => None,
            StudioError::Read { .. } => Some("check the file's permissions, or remove it".into()),
            StudioError::Invalid { hint, .. } => Some(hint.clone()),
            StudioError::NoTheme { known, .. } => Some(format!("expected one of: {known}")),
        }
    }
}

impl From<StudioError> for Failure {
    fn from(error: StudioError) -> Self {
        let class = match error {
            StudioError::Terminal { .. } => FailureClass::Internal,
            StudioError::Read { .. } | StudioError::Invalid { .. } => FailureClass::Input,
            StudioError::NoTerminal | StudioError::NoTheme { .. } => FailureClass::Usage,
        };
        Failure { class, error: error.to_string(), hint: error.hint() }
    }
}
