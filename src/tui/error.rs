//! What can keep the studio from starting or running.

use std::path::PathBuf;

use crate::record::{Failure, FailureClass};

/// Why the studio cannot start or go on.
#[derive(Debug, thiserror::Error)]
pub enum StudioError {
    /// There is no terminal to draw on.
    #[error("the studio needs a terminal, and standard output is none")]
    NoTerminal,
    /// The terminal refused.
    #[error("cannot {doing} the terminal: {source}")]
    Terminal {
        /// What was tried: `set up`, `draw on`, `read from`.
        doing: &'static str,
        /// The system's word.
        source: std::io::Error,
    },
    /// A key map or theme file cannot be read.
    #[error("cannot read {}: {source}", .file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// The system's word.
        source: std::io::Error,
    },
    /// A key map is wrong.
    #[error("{file}: {key}: {problem}")]
    Keymap {
        /// The file, or `the built-in key map`.
        file: String,
        /// `section.action`, or the section.
        key: String,
        /// What is wrong.
        problem: String,
        /// What to write instead.
        instead: String,
    },
    /// A theme is wrong.
    #[error("{file}: {key}: {problem}")]
    Theme {
        /// The file, or the built-in theme's name.
        file: String,
        /// `role` or `role.field`.
        key: String,
        /// What is wrong.
        problem: String,
        /// What to write instead.
        instead: String,
    },
    /// There is no theme of that name.
    #[error("there is no theme \"{name}\"")]
    NoTheme {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },
}

impl StudioError {
    /// The way out, in words.
    pub fn hint(&self) -> Option<String> {
        match self {
            StudioError::NoTerminal => {
                Some("run it in a terminal, or use `specreel caption VIDEO` for plain text".into())
            }
            StudioError::Terminal { .. } => None,
            StudioError::Read { .. } => Some("check the file's rights, or remove it".into()),
            StudioError::Keymap { instead, .. } | StudioError::Theme { instead, .. } => Some(instead.clone()),
            StudioError::NoTheme { known, .. } => Some(format!("choose one of {known}")),
        }
    }
}

impl From<StudioError> for Failure {
    fn from(error: StudioError) -> Self {
        let class = match error {
            StudioError::Terminal { .. } => FailureClass::Internal,
            StudioError::Read { .. } | StudioError::Keymap { .. } | StudioError::Theme { .. } => {
                FailureClass::Input
            }
            StudioError::NoTerminal | StudioError::NoTheme { .. } => FailureClass::Usage,
        };
        Failure { class, error: error.to_string(), hint: error.hint() }
    }
}
