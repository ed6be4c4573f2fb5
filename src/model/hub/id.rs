//! Names of models on the hub: `owner/name`, and a revision after an `@`.

use std::fmt;

use super::HubError;

/// The branch that is meant where no revision is named.
pub const MAIN: &str = "main";

/// Longest name or revision that is taken.
const LONGEST: usize = 200;

/// A model on the hub at a revision. Both are safe as parts of paths and of addresses: see [`ModelId::parse`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ModelId {
    /// Who published it.
    pub owner: String,
    /// Its name.
    pub name: String,
    /// Branch, tag or commit.
    pub revision: String,
}

impl ModelId {
    /// Read `owner/name` or `owner/name@revision`. Owner and name are letters, digits, `-`, `_` and `.`, without `--` or `..`;
    /// a revision may have slashes (`refs/pr/3`) but no part `..`.
    ///
    /// # Errors
    /// [`HubError::Id`] with what is wrong.
    pub fn parse(text: &str) -> Result<Self, HubError> {
        let refuse = |problem: &str| HubError::Id { id: text.to_owned(), problem: problem.to_owned() };
        let (id, revision) = text.split_once('@').unwrap_or((text, MAIN));
        let (owner, name) = id.split_once('/').ok_or_else(|| refuse("an id is owner/name"))?;
        for part in [owner, name] {
            let plain = part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
            let edges = part.starts_with(['-', '.']) || part.ends_with(['-', '.']);
            if part.is_empty() || part.len() > LONGEST || !plain || edges {
                return Err(refuse("owner and name are letters, digits, `-`, `_` and `.`"));
            }
            if part.contains("--") || part.contains("..") {
                return Err(refuse("`--` and `..` are no parts of a name"));
            }
        }
        let safe = revision.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/'));
        let parts = revision.split('/').all(|part| !part.is_empty() && part != "." && part != "..");
        if revision.len() > LONGEST || !safe || !parts {
            return Err(refuse("a revision is a branch, a tag or a commit"));
        }
        Ok(Self { owner: owner.into(), name: name.into(), revision: revision.into() })
    }

    /// True if a text is meant as an id rather than as a path: one slash, no path's beginning.
    pub fn looks_like(text: &str) -> bool {
        Self::parse(text).is_ok()
    }

    /// `owner/name`, as addresses have it.
    pub fn repository(&self) -> String {
        format!("{}/{}", self.owner, self.name)
    }

    /// The revision as one part of an address.
    pub(super) fn revision_in_url(&self) -> String {
        self.revision.replace('/', "%2F")
    }

    /// The folder in the cache.
    pub(super) fn folder(&self) -> String {
        format!("models--{}--{}", self.owner, self.name)
    }

    /// The id behind a folder of the cache, at this revision.
    pub(super) fn from_folder(folder: &str, revision: &str) -> Option<Self> {
        let (owner, name) = folder.strip_prefix("models--")?.split_once("--")?;
        Self::parse(&format!("{owner}/{name}@{revision}")).ok()
    }
}

impl fmt::Display for ModelId {
    /// As [`ModelId::parse`] reads it; the main branch is not named.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.owner, self.name)?;
        if self.revision == MAIN { Ok(()) } else { write!(f, "@{}", self.revision) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_and_written() {
        let id = ModelId::parse("Qwen/Qwen2.5-VL-3B-Instruct").unwrap();
        assert_eq!((id.repository().as_str(), id.revision.as_str()), ("Qwen/Qwen2.5-VL-3B-Instruct", "main"));
        assert_eq!(id.folder(), "models--Qwen--Qwen2.5-VL-3B-Instruct");
        assert_eq!(ModelId::from_folder(&id.folder(), "main"), Some(id.clone()));
        assert_eq!(id.to_string(), "Qwen/Qwen2.5-VL-3B-Instruct");
        let pr = ModelId::parse("a/b@refs/pr/3").unwrap();
        assert_eq!(
            (pr.revision_in_url().as_str(), pr.to_string().as_str()),
            ("refs%2Fpr%2F3", "a/b@refs/pr/3")
        );
    }

    #[test]
    fn what_could_leave_a_folder_or_an_address_is_refused() {
        for bad in [
            "", "a", "a/", "/b", "a/b/c", "../b", "a/..", "a/b@", "a/b@../x", "a/b@/x", "a/b@x//y", "a--b/c",
            "a/b c", "a/b?x", "a/b@x?y", "./model", "a/.", "a/b@a@b", "é/b",
        ] {
            assert!(ModelId::parse(bad).is_err(), "{bad}");
        }
    }
}
