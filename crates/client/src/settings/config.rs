//! `config.toml`: the user's defaults, as one layer of settings, with the line of every key.

use std::path::{Path, PathBuf};
use std::{collections::BTreeMap, io::ErrorKind};

use schemars::Schema;
use toml::de::DeTable;

use super::{Layer, Origin, Setting};
use specreel_record::Failure;
use specreel_speculate::suggest;

/// A configuration file that has been read. The default stands for a missing file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    pub values: Layer,
    file: PathBuf,
    /// Line of each key, from 1.
    lines: BTreeMap<String, usize>,
}

impl Config {
    pub fn schema() -> Schema {
        schemars::schema_for!(Layer)
    }

    fn keys() -> Vec<String> {
        let schema = Self::schema();
        let keys = schema.get("properties").and_then(|p| p.as_object());
        keys.map(|keys| keys.keys().cloned().collect()).unwrap_or_default()
    }

    /// Read a file; a missing file is an empty one. Fails if it has an unknown key or a wrong value (class input).
    pub fn read(path: &Path) -> Result<Self, Failure> {
        match std::fs::read_to_string(path) {
            Ok(text) => Self::parse(&text, path),
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                Ok(Self::default())
            }
            Err(e) => Err(Failure::input(
                format!("configuration file {}: {e}", path.display()),
                "make it readable, or remove it",
            )),
        }
    }

    /// Parse the text of a file. Fails as [`Config::read`].
    pub fn parse(text: &str, file: &Path) -> Result<Self, Failure> {
        let wrong = |error| mistake(text, file, &error);
        let table = DeTable::parse(text).map_err(wrong)?;
        let line = |key: &toml::Spanned<_>| line_of(text, key.span().start);
        let lines = table.get_ref().keys().map(|key| (key.get_ref().to_string(), line(key))).collect();
        let values = toml::from_str(text).map_err(wrong)?;
        Ok(Self { values, file: file.to_owned(), lines })
    }

    /// A value of this file with its origin.
    pub fn setting<T>(&self, key: &'static str, value: Option<T>) -> Setting<T> {
        let origin = if value.is_some() { self.origin(key) } else { Origin::Default };
        Setting { value, origin }
    }

    pub(super) fn origin(&self, key: &'static str) -> Origin {
        let line = self.lines.get(key).copied().unwrap_or(1);
        Origin::Config { file: self.file.clone(), line, key }
    }
}

fn line_of(text: &str, byte: usize) -> usize {
    1 + text.as_bytes()[..byte.min(text.len())].iter().filter(|byte| **byte == b'\n').count()
}

/// A TOML error in the words of the program: file, line, its text, and what to do.
fn mistake(text: &str, file: &Path, error: &toml::de::Error) -> Failure {
    let number = line_of(text, error.span().map_or(0, |span| span.start));
    let line = text.lines().nth(number - 1).unwrap_or_default().trim();
    let message = error.message().lines().next().unwrap_or_default();
    let example = "specreel config example prints an example file".to_owned();
    let (what, hint) = if let Some(rest) = message.strip_prefix("unknown field ") {
        let key = rest.split('`').nth(1).unwrap_or_default();
        let hint = match key {
            "profile" => {
                "remove it: speeds modelled for other hardware are now those of specreel-lab".to_owned()
            }
            _ => suggest(key, &Config::keys(), "expected one of"),
        };
        (format!("unknown key `{key}`"), hint)
    } else if let Some((_, wanted)) = message.split_once(", expected ")
        && message.starts_with("invalid ")
    {
        let wanted = match wanted {
            "a string" | "path string" => "a string in quotes",
            "a boolean" => "true or false",
            "a sequence" => "a list such as [\"a\", \"b\"]",
            "u32" | "u64" | "usize" => "a whole number from 0",
            other => other,
        };
        (format!("expected {wanted}"), example)
    } else {
        (message.to_owned(), example)
    };
    Failure::input(format!("configuration file {}:{number}: `{line}`: {what}", file.display()), hint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use specreel_record::FailureClass;

    fn parse(text: &str) -> Result<Config, Failure> {
        Config::parse(text, "config.toml".as_ref())
    }

    #[test]
    fn a_missing_file_is_an_empty_one() {
        assert_eq!(Config::read(Path::new("no/such/config.toml")), Ok(Config::default()));
        assert_eq!(parse("method = \"fly\"").unwrap().values.method.as_deref(), Some("fly"));
        let config = parse("device = \"cuda:1\"\ndtype = \"q4_k\"\nmax_new_tokens = 9").unwrap();
        assert!(config.values.device.is_some() && config.values.dtype.is_some());
        assert_eq!(config.values.max_new_tokens, Some(9));
    }

    #[test]
    fn mistakes_name_the_file_and_the_line() {
        for (text, part) in [
            ("metod = \"fly\"", ":1: `metod = \"fly\"`: unknown key `metod`"),
            ("mouse = true\ndevice = \"tpu\"", ":2: `device = \"tpu\"`: expected one of: auto, cpu"),
            ("drafter_device = \"npu\"", ":1: `drafter_device = \"npu\"`: expected one of: auto, cpu"),
            ("dtype = \"q9\"", ":1: `dtype = \"q9\"`: "),
            ("max_new_tokens = 0", "expected a number from 1 to 65536"),
            ("max_visual_tokens = 0", "expected a number from 1"),
            ("pace = 0", "expected auto, off, or a playback speed from 0.0001 to 1000"),
            ("pace = \"fast\"", "expected auto, off, or a playback speed from 0.0001 to 1000"),
            ("pace = nan", "expected auto, off, or a playback speed from 0.0001 to 1000"),
            ("sessions_keep = 0", "expected a number from 1; sessions = false keeps none"),
            ("sessions_keep = -1", "sessions_keep"),
            ("image_protocol = \"ascii\"", "unknown variant `ascii`"),
            ("theme = \"mono\"\nmethod = ", ":2: `method =`: "),
            ("= =", ":1: `= =`: "),
            ("method = 3", ":1: `method = 3`: expected a string in quotes"),
            ("mouse = 1", ":1: `mouse = 1`: expected true or false"),
            ("library = \"a\"", "expected a list"),
            ("sessions_keep = \"x\"", "expected a whole number"),
        ] {
            let failure = parse(text).unwrap_err();
            let error = &failure.error;
            assert!(error.starts_with("configuration file config.toml:"), "{error}");
            assert!(error.contains(part), "{text}: {error}");
            assert_eq!(failure.class, FailureClass::Input);
            // The keys are listed once, in the hint.
            assert!(!error.contains("max_new_tokens, "), "{error}");
        }
        let hint = parse("metod = \"fly\"").unwrap_err().hint.unwrap();
        assert!(hint.starts_with("did you mean `method`? expected one of: "), "{hint}");
    }
}
