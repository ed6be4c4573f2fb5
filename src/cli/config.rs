//! `config.toml`: defaults of a user. Arguments win over it.

use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
};

use schemars::{JsonSchema, Schema};
use serde::Deserialize;

use super::{args, dirs::Dirs, resolve, user_methods};
use crate::{
    record::{Failure, FailureClass},
    speculate::suggest,
    tui::{ColorDepth, ImageProtocol, Theme},
};

/// What a user may set once for all. Every key is optional.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Method by name or file.
    pub method: Option<String>,
    /// The prompt.
    pub prompt: Option<String>,
    /// The target: a directory, or the id of a model in the cache.
    pub target: Option<PathBuf>,
    /// The drafter, likewise; it belongs to the target, and is nothing without one.
    pub drafter: Option<PathBuf>,
    /// Folders of models, for `specreel models` and for suggested drafters.
    pub models: Vec<PathBuf>,
    /// Device, as `--device` takes it.
    pub device: Option<String>,
    /// The drafter's device, as `--drafter-device` takes it.
    pub drafter_device: Option<String>,
    /// Weight type, as `--dtype` takes it.
    pub dtype: Option<String>,
    /// Tokens at most.
    pub max_new_tokens: Option<u32>,
    /// The studio's theme.
    pub theme: Option<String>,
    /// How the studio draws pictures, as `--image-protocol` takes it.
    pub image_protocol: Option<ImageProtocol>,
    /// Whether the studio takes the mouse; false where nothing is said.
    pub mouse: Option<bool>,
    /// The studio's characters: `auto`, `utf-8` or `ascii`.
    pub charset: Option<args::CharsetChoice>,
    /// The studio's library folders.
    pub library: Vec<PathBuf>,
    /// Whether the studio keeps every run as a session file; true where nothing is said.
    pub sessions: Option<bool>,
    /// How many of them it keeps; the oldest go.
    pub sessions_keep: Option<usize>,
    /// Whether the studio keeps the prompts that were run; true where nothing is said.
    pub prompt_history: Option<bool>,
    /// Whether the studio remembers which files were used last; true where nothing is said.
    pub recent: Option<bool>,
}

impl Config {
    /// What the file may say, as a JSON schema.
    pub fn schema() -> Schema {
        schemars::schema_for!(Config)
    }

    /// The keys that the file may have.
    fn keys() -> Vec<String> {
        let schema = Self::schema();
        let keys = schema.get("properties").and_then(|p| p.as_object());
        keys.map(|keys| keys.keys().cloned().collect()).unwrap_or_default()
    }

    /// Read the user's file; no file is an empty one.
    ///
    /// # Errors
    /// The file cannot be read or says something that is not known (class input).
    pub fn load() -> Result<Config, Failure> {
        match Dirs::find() {
            Some(dirs) => Self::read(&dirs.config.join("config.toml")),
            None => Ok(Config::default()),
        }
    }

    /// A failure with where the value stands that it is about: a value of this file, not one that was typed.
    pub fn blame(key: &str, value: &dyn std::fmt::Display, failure: Failure) -> Failure {
        let file = Dirs::find().map_or_else(|| "config.toml".into(), |dirs| dirs.config.join("config.toml"));
        Failure {
            class: FailureClass::Input,
            error: format!("configuration file {}: {key} = \"{value}\": {}", file.display(), failure.error),
            ..failure
        }
    }

    /// What is wrong with values that can only be judged by a look at what they name.
    pub fn mistakes(&self) -> Vec<Failure> {
        let dirs = Dirs::find();
        let mut all = Vec::new();
        let mut add = |key: &str, value: &dyn std::fmt::Display, failure: Option<Failure>| {
            all.extend(failure.map(|failure| Self::blame(key, value, failure)));
        };
        let input = |error: &str, hint: &str| {
            Some(Failure { class: FailureClass::Input, error: error.into(), hint: Some(hint.into()) })
        };
        if let Some(method) = &self.method {
            add("method", method, user_methods::find(method, dirs.as_ref()).err());
        }
        if let Some(prompt) = self.prompt.as_ref().filter(|prompt| prompt.trim().is_empty()) {
            add("prompt", prompt, input("the prompt is empty", "take the line out, or say what to write"));
        }
        for (role, dir) in [("target", &self.target), ("drafter", &self.drafter)] {
            if let Some(dir) = dir {
                add(role, &dir.display(), resolve::model_directory(role, dir).err());
            }
        }
        if let (Some(drafter), None) = (&self.drafter, &self.target) {
            let hint = "add a target, or take the line out";
            add("drafter", &drafter.display(), input("a drafter without a target is not used", hint));
        }
        for (key, folders) in [("models", &self.models), ("library", &self.library)] {
            for folder in folders.iter().filter(|folder| !folder.is_dir()) {
                add(key, &folder.display(), input("no such folder", "check the path, or take it out"));
            }
        }
        if let Some(theme) = self.theme.as_deref().filter(|theme| *theme != "auto") {
            let folder = dirs.map(|dirs| dirs.config.join("themes"));
            // A theme file that is wrong is told on its own.
            if let Ok(themes) = Theme::all(folder.as_deref(), ColorDepth::True)
                && !themes.iter().any(|known| known.name == theme)
            {
                let names: Vec<&str> = themes.iter().map(|theme| theme.name.as_str()).collect();
                let hint = format!("there are auto, {}", names.join(", "));
                add("theme", &theme, input("there is no theme of this name", &hint));
            }
        }
        all
    }

    /// Read this file; no file is an empty one.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn read(path: &Path) -> Result<Config, Failure> {
        let fail = |what: String, hint: &str| Failure {
            class: FailureClass::Input,
            error: format!("configuration file {}: {what}", path.display()),
            hint: Some(hint.into()),
        };
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Ok(Config::default());
            }
            Err(e) => return Err(fail(e.to_string(), "make it readable, or remove it")),
        };
        let config: Config = toml::from_str(&text).map_err(|e| {
            let (what, hint) = mistake(&text, &e);
            fail(what, &hint)
        })?;
        for (key, device) in [("device", &config.device), ("drafter_device", &config.drafter_device)] {
            if let Some(device) = device {
                args::device(device).map_err(|e| fail(format!("{key} = {device:?} is unknown"), &e))?;
            }
        }
        if let Some(dtype) = &config.dtype {
            args::dtype(dtype).map_err(|e| fail(format!("dtype = {dtype:?} is unknown"), &e))?;
        }
        if config.max_new_tokens.is_some_and(|n| !(1..=65536).contains(&n)) {
            return Err(fail("max_new_tokens is out of range".into(), "write a number from 1 to 65536"));
        }
        if config.sessions_keep == Some(0) {
            let hint = "write how many sessions to keep; sessions = false keeps none";
            return Err(fail("sessions_keep is 0".into(), hint));
        }
        Ok(config)
    }
}

/// A mistake of the TOML reader in our words: the line with what is wrong in it, and the way out.
fn mistake(text: &str, error: &toml::de::Error) -> (String, String) {
    let start = error.span().map_or(0, |span| span.start.min(text.len()));
    let number = text.as_bytes()[..start].iter().filter(|byte| **byte == b'\n').count();
    let line = text.lines().nth(number).unwrap_or_default().trim();
    let message = error.message().lines().next().unwrap_or_default();
    let example = "specreel config example prints a file to begin with".to_owned();
    let (what, hint) = if let Some(rest) = message.strip_prefix("unknown field ") {
        let key = rest.split('`').nth(1).unwrap_or_default();
        (format!("there is no key `{key}`"), suggest(key, &Config::keys(), "the keys are"))
    } else if let Some((_, wanted)) = message.split_once(", expected ")
        && message.starts_with("invalid ")
    {
        let wanted = match wanted {
            "a string" | "path string" => "text in quotes",
            "a boolean" => "true or false",
            "a sequence" => "a list such as [\"a\", \"b\"]",
            "u32" | "u64" | "usize" => "a whole number from 0",
            other => other,
        };
        (format!("it must be {wanted}"), example)
    } else {
        (message.to_owned(), example)
    };
    (format!("line {}, `{line}`: {what}", number + 1), hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Config, Failure> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.toml");
        std::fs::write(&path, text).unwrap();
        Config::read(&path)
    }

    #[test]
    fn no_file_is_an_empty_one() {
        assert_eq!(Config::read(Path::new("no/such/config.toml")), Ok(Config::default()));
        assert_eq!(read("method = \"fly\"").unwrap().method.as_deref(), Some("fly"));
    }

    #[test]
    fn mistakes_name_the_file_and_the_key() {
        for (text, part) in [
            ("metod = \"fly\"", "metod"),
            ("device = \"tpu\"", "device = \"tpu\" is unknown"),
            ("drafter_device = \"gpu\"", "drafter_device = \"gpu\" is unknown"),
            ("dtype = \"q9\"", "dtype = \"q9\" is unknown"),
            ("max_new_tokens = 0", "max_new_tokens is out of range"),
            ("sessions_keep = 0", "sessions_keep is 0"),
            ("sessions_keep = -1", "sessions_keep"),
            ("image_protocol = \"ascii\"", "unknown variant `ascii`"),
            ("theme = \"mono\"\nmethod = ", "line 2, `method =`: "),
            ("= =", "line 1, `= =`: "),
            ("method = 3", "line 1, `method = 3`: it must be text in quotes"),
            ("mouse = 1", "line 1, `mouse = 1`: it must be true or false"),
            ("library = \"a\"", "it must be a list"),
            ("sessions_keep = \"x\"", "it must be a whole number"),
        ] {
            let failure = read(text).unwrap_err();
            assert!(
                failure.error.contains("config.toml") && failure.error.contains(part),
                "{}",
                failure.error
            );
            assert_eq!(failure.class, FailureClass::Input);
            // Said once, in the hint.
            assert!(!failure.error.contains("max_new_tokens, "), "{}", failure.error);
        }
        let hint = read("metod = \"fly\"").unwrap_err().hint.unwrap();
        assert!(hint.starts_with("did you mean `method`? the keys are: "), "{hint}");
    }

    #[test]
    fn values_that_name_nothing_are_told_with_their_keys() {
        let text = "method = \"nope\"\nprompt = \" \"\ndrafter = \"/no/dir\"\nmodels = [\"/no/models\"]\ntheme = \"nope\"";
        let mistakes = read(text).unwrap().mistakes();
        let parts = [
            "method = \"nope\": unknown method `nope`",
            "prompt = \" \": the prompt is empty",
            "drafter = \"/no/dir\": drafter model /no/dir: ",
            "drafter = \"/no/dir\": a drafter without a target is not used",
            "models = \"/no/models\": no such folder",
            "theme = \"nope\": there is no theme of this name",
        ];
        assert_eq!(mistakes.len(), parts.len(), "{mistakes:?}");
        for (mistake, part) in mistakes.iter().zip(parts) {
            assert!(
                mistake.error.contains("config.toml: ") && mistake.error.contains(part),
                "{}",
                mistake.error
            );
        }
        assert_eq!(read("theme = \"auto\"\nmethod = \"fly\"").unwrap().mistakes(), []);
    }
}
