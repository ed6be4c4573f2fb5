//! `config.toml`: defaults of a user. Arguments win over it.

use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
};

use schemars::{JsonSchema, Schema};
use serde::Deserialize;

use super::{args, dirs::Dirs};
use crate::{
    record::{Failure, FailureClass},
    tui::ImageProtocol,
};

/// What a user may set once for all. Every key is optional.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Method by name or file.
    pub method: Option<String>,
    /// The prompt.
    pub prompt: Option<String>,
    /// Directory of the target.
    pub target: Option<PathBuf>,
    /// Directory of the drafter.
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
            let known = format!("known keys: {}", Self::keys().join(", "));
            fail(e.to_string().trim_end().into(), &known)
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
            ("method = ", "TOML parse error"),
        ] {
            let failure = read(text).unwrap_err();
            assert!(
                failure.error.contains("config.toml") && failure.error.contains(part),
                "{}",
                failure.error
            );
            assert_eq!(failure.class, FailureClass::Input);
        }
    }
}
