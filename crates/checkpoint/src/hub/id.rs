//! Model ids of the hub: `owner/name` or `owner/name@revision`, with `:type` for a GGUF file.

use std::fmt;

use super::HubError;
use crate::gguf::file_names;

pub(crate) const MAIN: &str = "main";

/// Maximum length of a name or revision.
const LONGEST: usize = 200;

/// A model on the hub at a revision, safe to use in paths and URLs: see [`ModelId::parse`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ModelId {
    /// User or organization.
    pub(crate) owner: String,
    pub name: String,
    /// Branch, tag or commit.
    pub(crate) revision: String,
    /// The type of a GGUF file, such as `Q4_K_M`; `None` for a model in Hugging Face layout.
    pub tag: Option<String>,
}

impl ModelId {
    /// Parse `owner/name` or `owner/name@revision`, with or without `:type`. Owner and name consist of letters, digits, `-`,
    /// `_` and `.`, without `--` or `..`; a revision may contain slashes (`refs/pr/3`) but no component `..`; a type consists of
    /// letters, digits, `-` and `_`, and is stored in upper case.
    pub fn parse(text: &str) -> Result<Self, HubError> {
        let refuse = |problem: &str| HubError::Id { id: text.to_owned(), problem: problem.to_owned() };
        let (rest, tag) = match text.split_once(':') {
            Some((rest, tag)) => (rest, Some(tag)),
            None => (text, None),
        };
        let (id, revision) = rest.split_once('@').unwrap_or((rest, MAIN));
        let (owner, name) =
            id.split_once('/').ok_or_else(|| refuse("expected OWNER/NAME or OWNER/NAME@REVISION"))?;
        for part in [owner, name] {
            let plain = part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
            let edges = part.starts_with(['-', '.']) || part.ends_with(['-', '.']);
            if part.is_empty() || part.len() > LONGEST || !plain || edges {
                return Err(refuse("owner and name may contain letters, digits, `-`, `_` and `.`"));
            }
            if part.contains("--") || part.contains("..") {
                return Err(refuse("`--` and `..` are not allowed in a name"));
            }
        }
        let safe = revision.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/'));
        let parts = revision.split('/').all(|part| !part.is_empty() && part != "." && part != "..");
        if revision.len() > LONGEST || !safe || !parts {
            return Err(refuse("the revision must be a branch, tag or commit"));
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if tag.is_some_and(|tag| tag.is_empty() || tag.len() > LONGEST || !tag.chars().all(plain)) {
            return Err(refuse("the type after `:` must be one of a GGUF file, such as Q4_K_M"));
        }
        Ok(Self {
            owner: owner.into(),
            name: name.into(),
            revision: revision.into(),
            tag: tag.map(file_names::canonical),
        })
    }

    /// The same model as the GGUF file of a type.
    pub(super) fn with_tag(self, tag: Option<String>) -> Self {
        Self { tag, ..self }
    }

    /// `owner/name`, as in URLs.
    pub fn repository(&self) -> String {
        format!("{}/{}", self.owner, self.name)
    }

    pub(super) fn revision_in_url(&self) -> String {
        self.revision.replace('/', "%2F")
    }

    /// Name of its directory in the cache.
    pub(super) fn folder(&self) -> String {
        format!("models--{}--{}", self.owner, self.name)
    }

    pub(super) fn from_folder(folder: &str, revision: &str) -> Option<Self> {
        let (owner, name) = folder.strip_prefix("models--")?.split_once("--")?;
        Self::parse(&format!("{owner}/{name}@{revision}")).ok()
    }
}

impl fmt::Display for ModelId {
    /// In the form of [`ModelId::parse`]; the main branch is left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.owner, self.name)?;
        if self.revision != MAIN {
            write!(f, "@{}", self.revision)?;
        }
        self.tag.as_ref().map_or(Ok(()), |tag| write!(f, ":{tag}"))
    }
}

/// True for a commit hash: forty hexadecimal digits.
pub(super) fn is_commit(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_parsed_and_displayed() {
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
        for (text, shown) in [("a/b:q4_k_m", "a/b:Q4_K_M"), ("a/b@v1:UD-Q4_K_XL", "a/b@v1:UD-Q4_K_XL")] {
            assert_eq!(ModelId::parse(text).unwrap().to_string(), shown);
        }
    }

    #[test]
    fn ids_that_escape_a_directory_or_url_are_refused() {
        let bad = "|a|a/|/b|a/b/c|../b|a/..|a/b@|a/b@../x|a/b@/x|a/b@x//y|a--b/c|a/b c|a/b?x|a/b@x?y\
            |./model|a/.|a/b@a@b|é/b|a/b:|a/b:../x|a/b:Q4_0:Q8_0|a/b:Q4_0@v1|:Q4_0";
        for bad in bad.split('|') {
            assert!(ModelId::parse(bad).is_err(), "{bad}");
        }
    }
}
