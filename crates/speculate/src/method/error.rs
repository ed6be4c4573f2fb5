//! Errors of methods: what is wrong, and the way out.

use std::path::PathBuf;

use specreel_record::{Failure, FailureClass};

/// Where the method with the problem came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A method in memory, by name.
    Method(String),
    File(PathBuf),
    /// A `--set`, as typed.
    Set(String),
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Origin::Method(name) => write!(f, "method `{name}`"),
            Origin::File(path) => write!(f, "method file {}", path.display()),
            Origin::Set(text) => write!(f, "--set {text}"),
        }
    }
}

/// One mistake in a method. Displays as a message; [`Problem::hint`] says how to correct it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Problem {
    #[error("not valid TOML: {message}")]
    Syntax {
        /// The parser's message, with line and column.
        message: String,
    },
    #[error("unknown key `{key}`")]
    UnknownKey {
        key: String,
        /// The keys that are allowed there.
        allowed: Vec<String>,
    },
    #[error("unknown kind \"{kind}\" of `{axis}`")]
    UnknownKind {
        axis: String,
        kind: String,
        /// The kinds of the axis.
        allowed: Vec<String>,
    },
    #[error("`{key}` is missing")]
    Missing { key: String, example: String },
    #[error("`{key}` is {found}, but must be {wanted}")]
    Type {
        key: String,
        found: String,
        /// The type that it takes, in words.
        wanted: String,
    },
    #[error("`{key}` is {found}, but must be {range}")]
    Range {
        key: String,
        found: String,
        range: Box<str>,
        /// What the key means, or what to write.
        hint: Box<str>,
    },
    #[error("`{first}` and `{second}` clash: {why}")]
    Clash {
        /// One choice, as `axis = kind`.
        first: String,
        second: String,
        why: &'static str,
        instead: &'static str,
    },
    /// The file prunes the target, which is no choice of a method.
    #[error("`pruner` drops visual tokens within the target, which only the laboratory does")]
    Pruner,
    /// A key without axis that the method does not have.
    #[error("the method has no key `{key}`")]
    NoAxis {
        key: String,
        /// The choices that have it, as `axis = kind`.
        owners: Vec<String>,
        /// The keys of the method.
        allowed: Vec<String>,
    },
    /// A key without axis that several axes of the method have.
    #[error("several axes have the key `{key}`")]
    SeveralAxes {
        key: String,
        /// The key with each of the axes.
        places: Vec<String>,
    },
    /// A `--set` that is not of the form axis.key=value.
    #[error("expected AXIS.KEY=VALUE, got `{text}`")]
    Form { text: String },
}

impl Problem {
    pub fn hint(&self) -> String {
        match self {
            Problem::Syntax { .. } => "`specreel methods show lvspec` prints a file to start from".into(),
            Problem::UnknownKey { key, allowed } if allowed.is_empty() => {
                format!("`{}` takes no keys other than `kind`", key.split('.').next().unwrap_or(key))
            }
            Problem::UnknownKey { key, allowed } => {
                let last = key.rsplit('.').next().unwrap_or(key);
                suggest(last, allowed, "expected one of")
            }
            Problem::UnknownKind { kind, allowed, .. } => suggest(kind, allowed, "expected one of"),
            Problem::Missing { example, .. } => format!("for example: {example}"),
            Problem::Type { wanted, .. } => format!("write {wanted}"),
            Problem::Range { hint, .. } => hint.as_ref().into(),
            Problem::Clash { instead, .. } => (*instead).into(),
            Problem::Pruner => "measure the file with `specreel-lab bench --methods FILE`".into(),
            Problem::NoAxis { key, owners, allowed } if owners.is_empty() => {
                suggest(key, allowed, "expected one of")
            }
            Problem::NoAxis { owners, .. } => format!("only these have it: {}", owners.join(", ")),
            Problem::SeveralAxes { places, .. } => format!("write one of: {}", places.join(", ")),
            Problem::Form { .. } => "for example: --set acceptance.lambda=0.5".into(),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum MethodError {
    #[error("unknown method `{name}`")]
    Unknown { name: String, known: Vec<String> },
    #[error("cannot read method file {path}: {source}")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{origin}: {problem}")]
    Invalid {
        /// Where it comes from.
        origin: Origin,
        problem: Problem,
    },
}

impl MethodError {
    /// Input for files; usage for names and `--set`.
    pub fn class(&self) -> FailureClass {
        match self {
            MethodError::Read { .. } | MethodError::Invalid { origin: Origin::File(_), .. } => {
                FailureClass::Input
            }
            MethodError::Unknown { .. } | MethodError::Invalid { .. } => FailureClass::Usage,
        }
    }

    pub fn hint(&self) -> String {
        match self {
            MethodError::Unknown { name, known } => {
                guess(name, known, "`specreel methods` lists all methods")
            }
            MethodError::Read { .. } => {
                "pass a readable TOML file, or a name that `specreel methods` lists".into()
            }
            MethodError::Invalid { problem, .. } => problem.hint(),
        }
    }

    pub(super) fn invalid(origin: Origin, problem: Problem) -> Self {
        MethodError::Invalid { origin, problem }
    }
}

impl From<MethodError> for Failure {
    fn from(error: MethodError) -> Self {
        Failure { class: error.class(), error: error.to_string(), hint: Some(error.hint()) }
    }
}

/// "did you mean `x`? expected one of: a, b, c", with `lead` before the colon.
pub fn suggest(word: &str, known: &[String], lead: &str) -> String {
    guess(word, known, &format!("{lead}: {}", known.join(", ")))
}

/// "did you mean `x`?", if a known word is near, and then `rest`.
fn guess(word: &str, known: &[String], rest: &str) -> String {
    match closest(word, known) {
        Some(near) => format!("did you mean `{near}`? {rest}"),
        None => rest.into(),
    }
}

/// The known word with the fewest edits, if it is near enough to be meant.
pub fn closest<'a>(word: &str, known: &'a [String]) -> Option<&'a str> {
    let limit = word.chars().count().div_ceil(3).min(3);
    known
        .iter()
        .map(|k| (edits(word, k), k.as_str()))
        .filter(|(n, _)| *n <= limit)
        .min_by_key(|(n, _)| *n)
        .map(|(_, k)| k)
}

/// Levenshtein distance in characters, case ignored.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.to_lowercase().chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.to_lowercase().chars().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let change = corner + usize::from(ca != *cb);
            corner = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(corner + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_suggested_and_far_ones_are_not() {
        let known: Vec<String> = ["lvspec", "lenient", "fly"].map(String::from).into();
        assert_eq!(closest("lvspce", &known), Some("lvspec"));
        assert_eq!(closest("LVSpec", &known), Some("lvspec"));
        assert_eq!(closest("flyy", &known), Some("fly"));
        assert_eq!(closest("medusa", &known), None);
        assert_eq!(edits("kitten", "sitting"), 3);
    }
}
