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
    /// Where the values come from that this file does not set.
    base: Option<Box<Self>>,
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
        Ok(Self { values, file: file.to_owned(), lines, base: None })
    }

    /// Read a file of several models: a section for each, by its name, with keys of the configuration file. What a section leaves out is
    /// as in this configuration, except for the models. Fails as [`Config::read`], and for a section without a target.
    pub fn sections(&self, path: &Path) -> Result<Vec<(String, Self)>, Failure> {
        let text = std::fs::read_to_string(path).map_err(|e| {
            Failure::input(format!("file of models {}: {e}", path.display()), "name a readable TOML file")
        })?;
        let wrong = |error| mistake(&text, path, &error);
        let table = DeTable::parse(&text).map_err(wrong)?;
        let mut layers: BTreeMap<String, Layer> = toml::from_str(&text).map_err(wrong)?;
        let mut base = self.values.clone();
        (base.target, base.mmproj, base.lora) = (None, None, None);
        (base.drafter, base.drafter_mmproj) = (None, None);
        let mut sections = Vec::new();
        for (name, section) in table.get_ref() {
            let (at, name) = (name.span().start, name.get_ref().to_string());
            let keys = section.get_ref().as_table().into_iter().flat_map(|table| table.keys());
            let lines = keys.map(|key| (key.get_ref().to_string(), line_of(&text, key.span().start)));
            let values = layers.remove(&name).unwrap_or_default();
            if values.target.is_none() {
                let place = format!("file of models {}:{}", path.display(), line_of(&text, at));
                let hint = "add a line such as: target = \"Qwen/Qwen3-VL-2B-Instruct\"";
                return Err(Failure::input(format!("{place}: [{name}] has no target"), hint));
            }
            let (values, lines) = (values.over(base.clone()), lines.collect());
            let base = Some(Box::new(self.clone()));
            sections.push((at, name, Self { values, file: path.to_owned(), lines, base }));
        }
        // In the order of the file.
        sections.sort_by_key(|(at, ..)| *at);
        if sections.is_empty() {
            let hint = "add a section for each model, such as: [small]";
            return Err(Failure::input(format!("file of models {}: it is empty", path.display()), hint));
        }
        Ok(sections.into_iter().map(|(_, name, section)| (name, section)).collect())
    }

    /// A value of this file with its origin.
    pub fn setting<T>(&self, key: &'static str, value: Option<T>) -> Setting<T> {
        let origin = if value.is_some() { self.origin(key) } else { Origin::Default };
        Setting { value, origin }
    }

    pub(super) fn origin(&self, key: &'static str) -> Origin {
        if let Some(base) = self.base.as_ref().filter(|_| !self.lines.contains_key(key)) {
            return base.origin(key);
        }
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
    fn sections_are_over_the_configuration_but_for_its_models() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("models.toml");
        let read = |text: &str| {
            std::fs::write(&file, text).unwrap();
            let base =
                parse("# mine\ntarget = \"mine\"\ndrafter = \"own\"\nmethod = \"fly\"\ntemperature = 9");
            base.unwrap().sections(&file)
        };
        let sections = read("[small]\ntarget = \"a\"\n[large]\ntarget = \"b\"\nmethod = \"naive\"").unwrap();
        let names: Vec<&str> = sections.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, ["small", "large"]);
        let [small, large] = [0, 1].map(|n| crate::Settings::merge(Layer::default(), &sections[n].1));
        assert_eq!((small.target.value, small.drafter.value), (Some("a".into()), None));
        assert_eq!((small.method.value.as_deref(), small.temperature.value), (Some("fly"), Some(9.0)));
        assert!(small.method.origin.to_string().ends_with("config.toml:4: method"));
        assert_eq!(large.method.value.as_deref(), Some("naive"));
        assert!(large.method.origin.to_string().ends_with("models.toml:5: method"), "{:?}", large.method);
        for (text, part) in [
            ("", "it is empty"),
            ("[a]\nmethod = \"naive\"", ":1: [a] has no target"),
            ("[a]\ntarget = \"a\"\nmetod = 1", ":3: `metod = 1`: unknown key `metod`"),
            ("target = \"a\"", ":1: `target = \"a\"`"),
        ] {
            let failure = read(text).unwrap_err();
            assert!(
                failure.class == FailureClass::Input && failure.error.contains(part),
                "{text}: {failure:?}"
            );
        }
        assert_eq!(Config::default().sections(Path::new("/no/such")).unwrap_err().class, FailureClass::Input);
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
