//! Errors of constraints.

use specreel_record::{Failure, FailureClass};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GrammarError {
    /// It is not valid, uses what is not supported, or allows no text. Of a grammar with the place: line and column, from 1.
    #[error("{}{problem}", place(*.at))]
    Invalid { at: Option<(usize, usize)>, problem: String },
    /// A tokenizer whose tokens cannot be used.
    #[error("the tokenizer cannot write constrained text: {0}")]
    Tokenizer(String),
    /// The build has no grammars.
    #[error("this build cannot restrict what is written: it lacks the feature `structured`")]
    Absent,
    /// The state along a text.
    #[error("the grammar cannot be followed: {0}")]
    State(String),
}

fn place(at: Option<(usize, usize)>) -> String {
    at.map(|(line, column)| format!("line {line}, column {column}: ")).unwrap_or_default()
}

#[cfg(feature = "structured")]
impl GrammarError {
    /// From the compiler's message, whose first line may begin with `at LINE(COLUMN): `.
    pub(super) fn invalid(message: &str) -> Self {
        let mut lines = message.lines();
        let first = lines.next().unwrap_or_default();
        // Of a regular expression the reason is in a later line.
        let reason = lines.find_map(|line| line.trim_start().strip_prefix("error: "));
        let placed = || {
            let (line, rest) = first.strip_prefix("at ").unwrap_or(first).split_once('(')?;
            let (column, problem) = rest.split_once("): ")?;
            Some(((line.parse().ok()?, column.parse().ok()?), problem))
        };
        let (at, problem) = placed().map_or((None, first), |(at, problem)| (Some(at), problem));
        let problem = problem.trim_end_matches(':').to_owned();
        let problem = match reason {
            Some(reason) => format!("{problem}: {reason}"),
            None => problem,
        };
        Self::Invalid { at, problem }
    }

    pub(super) fn state(error: impl std::fmt::Display) -> Self {
        let message = error.to_string();
        Self::State(message.lines().next().unwrap_or_default().to_owned())
    }
}

impl From<GrammarError> for specreel_tensor::Error {
    fn from(error: GrammarError) -> Self {
        Self::Message(error.to_string())
    }
}

impl From<GrammarError> for Failure {
    fn from(error: GrammarError) -> Self {
        let hint = match &error {
            GrammarError::Invalid { .. } => Some("docs/structured.md lists what is supported".to_owned()),
            GrammarError::Tokenizer(_) => Some("omit --schema and --grammar with this model".to_owned()),
            GrammarError::Absent => Some("build it with `--features structured`".to_owned()),
            GrammarError::State(_) => None,
        };
        let class = match error {
            GrammarError::State(_) => FailureClass::Internal,
            GrammarError::Absent => FailureClass::Usage,
            _ => FailureClass::Input,
        };
        Failure { class, error: error.to_string(), hint }
    }
}
