//! Hub endpoint, cache directory and access token from the environment variables of the Hugging Face tools.

use std::path::{Path, PathBuf};

const PUBLIC: &str = "https://huggingface.co";

/// Maximum size of a token file, in bytes.
const MAX_TOKEN_FILE: u64 = 4096;

/// An access token: sent to the hub, never displayed.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// A token; `None` if the text is empty or is not safe in a header.
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        (!text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic())).then(|| Self(text.to_owned()))
    }

    pub(super) fn secret(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The cache: directories `models--owner--name`. `None` without a home directory.
    pub cache: Option<PathBuf>,
    /// URL of the hub, without a trailing slash.
    pub endpoint: String,
    pub token: Option<Token>,
    /// Never use the network.
    pub offline: bool,
}

impl Settings {
    /// From the process environment: `HF_HUB_CACHE` (older: `HUGGINGFACE_HUB_CACHE`), `HF_HOME`, `HF_ENDPOINT`,
    /// `HF_TOKEN` (older: `HUGGING_FACE_HUB_TOKEN`), `HF_TOKEN_PATH`, `HF_HUB_DISABLE_IMPLICIT_TOKEN`, `HF_HUB_OFFLINE`.
    pub fn from_env() -> Self {
        let home = etcetera::home_dir().ok();
        Self::read(&|name| std::env::var(name).ok(), home.as_deref())
    }

    /// From any source of variables.
    pub fn read(variable: &dyn Fn(&str) -> Option<String>, home: Option<&Path>) -> Self {
        let text = |name: &str| variable(name).map(|v| v.trim().to_owned()).filter(|v| !v.is_empty());
        // As huggingface_hub: the home directory, then variables.
        let path = |name: &str| {
            let text = text(name)?;
            let of_home = text.strip_prefix('~').filter(|rest| rest.is_empty() || rest.starts_with('/'));
            let text = match (of_home, home.and_then(Path::to_str)) {
                (Some(rest), Some(home)) => format!("{home}{rest}"),
                _ => text,
            };
            Some(PathBuf::from(expanded(&text, variable)))
        };
        let on = |name: &str| {
            text(name).is_some_and(|v| matches!(v.to_lowercase().as_str(), "1" | "on" | "yes" | "true"))
        };
        let hub_home = path("HF_HOME").or_else(|| {
            let caches = path("XDG_CACHE_HOME").or_else(|| home.map(|home| home.join(".cache")))?;
            Some(caches.join("huggingface"))
        });
        let cache = path("HF_HUB_CACHE")
            .or_else(|| path("HUGGINGFACE_HUB_CACHE"))
            .or_else(|| hub_home.as_ref().map(|home| home.join("hub")));
        let token = || {
            let named = text("HF_TOKEN").or_else(|| text("HUGGING_FACE_HUB_TOKEN"));
            let file = path("HF_TOKEN_PATH").or_else(|| hub_home.as_ref().map(|home| home.join("token")));
            named.or_else(|| small_file(&file?)).as_deref().and_then(Token::new)
        };
        let endpoint = text("HF_ENDPOINT").unwrap_or_else(|| PUBLIC.into());
        Self {
            cache,
            endpoint: endpoint.trim_end_matches('/').to_owned(),
            token: if on("HF_HUB_DISABLE_IMPLICIT_TOKEN") { None } else { token() },
            offline: on("HF_HUB_OFFLINE") || on("TRANSFORMERS_OFFLINE"),
        }
    }
}

/// A text with `$NAME` and `${NAME}` replaced, as by Python's `os.path.expandvars`: unknown ones stay, and what is put in is not
/// looked through again.
fn expanded(text: &str, variable: &dyn Fn(&str) -> Option<String>) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let (name, whole) = match after.strip_prefix('{') {
            Some(inside) => match inside.find('}') {
                Some(end) => (&inside[..end], end + 3),
                None => ("", 1),
            },
            None => {
                let end = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(after.len());
                (&after[..end], end + 1)
            }
        };
        match variable(name).filter(|_| !name.is_empty()) {
            Some(value) => out.push_str(&value),
            None => out.push_str(&rest[at..at + whole]),
        }
        rest = &rest[at + whole..];
    }
    out + rest
}

fn small_file(path: &Path) -> Option<String> {
    let about = std::fs::metadata(path).ok()?;
    (about.is_file() && about.len() <= MAX_TOKEN_FILE).then(|| std::fs::read_to_string(path).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Settings {
        let find = |name: &str| variables.iter().find(|v| v.0 == name).map(|v| v.1.to_owned());
        Settings::read(&find, Some(Path::new("/home/me")))
    }

    #[test]
    fn the_cache_follows_the_variables_in_their_order() {
        let cache = |variables: &[(&str, &str)]| read(variables).cache.unwrap().display().to_string();
        assert_eq!(cache(&[]), "/home/me/.cache/huggingface/hub");
        assert_eq!(cache(&[("XDG_CACHE_HOME", "/x")]), "/x/huggingface/hub");
        assert_eq!(cache(&[("XDG_CACHE_HOME", "/x"), ("HF_HOME", "~/hf")]), "/home/me/hf/hub");
        assert_eq!(cache(&[("HF_HOME", "/hf"), ("HUGGINGFACE_HUB_CACHE", "/old")]), "/old");
        assert_eq!(cache(&[("HF_HOME", "~")]), "/home/me/hub");
        assert_eq!(cache(&[("HF_HOME", "~you/hf")]), "~you/hf/hub");
        assert_eq!(cache(&[("HF_HUB_CACHE", "/new"), ("HUGGINGFACE_HUB_CACHE", "/old")]), "/new");
    }

    #[test]
    fn variables_in_paths_are_replaced() {
        let cache = |name: &str, path: &str| {
            let variables = [(name, path), ("HOME", "/home/me"), ("DISK_2", "/mnt"), ("LOOP", "$HOME")];
            read(&variables).cache.unwrap().display().to_string()
        };
        for (path, expected) in [
            ("$HOME/x", "/home/me/x"),
            ("${HOME}/x", "/home/me/x"),
            ("$DISK_2/a${HOME}b$DISK_2", "/mnt/a/home/meb/mnt"),
            ("/x/$NONE/${NONE}/$", "/x/$NONE/${NONE}/$"),
            ("/é$", "/é$"),
            ("/x/${HOME", "/x/${HOME"),
            ("/x/${}", "/x/${}"),
            ("/x$LOOP", "/x$HOME"),
        ] {
            for name in ["HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"] {
                assert_eq!(cache(name, path), expected, "{name}={path}");
            }
            assert_eq!(cache("HF_HOME", path), format!("{expected}/hub"), "HF_HOME={path}");
            assert_eq!(cache("XDG_CACHE_HOME", path), format!("{expected}/huggingface/hub"));
        }
    }

    #[test]
    fn tokens_come_from_variable_or_file_and_are_never_shown() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().display().to_string();
        std::fs::write(dir.path().join("token"), "hf_file\n").unwrap();
        assert_eq!(read(&[("HF_HOME", &home)]).token, Token::new("hf_file"));
        assert_eq!(read(&[("HF_HOME", &home), ("HF_TOKEN", "hf_var")]).token, Token::new("hf_var"));
        assert_eq!(read(&[("HF_HOME", &home), ("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1")]).token, None);
        assert_eq!(read(&[("HF_TOKEN", "two\r\nlines")]).token, None);
        let shown = format!("{:?}", read(&[("HF_TOKEN", "hf_secret")]));
        assert!(!shown.contains("secret"), "{shown}");
    }

    #[test]
    fn endpoint_and_offline() {
        let settings = read(&[("HF_ENDPOINT", "http://mirror/"), ("HF_HUB_OFFLINE", "Yes")]);
        assert_eq!((settings.endpoint.as_str(), settings.offline), ("http://mirror", true));
        let settings = read(&[("HF_HUB_OFFLINE", "0")]);
        assert_eq!((settings.endpoint.as_str(), settings.offline), (PUBLIC, false));
    }
}
