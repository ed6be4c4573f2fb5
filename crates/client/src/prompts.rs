//! Named prompts: the built-in presets, and the user's own from `prompts.toml` in the configuration directory.

use std::path::Path;

use serde::Deserialize;

use specreel_record::{Failure, FailureClass};

const BUILT_IN: &str = include_str!("../../../assets/prompts/default.toml");
const EMBEDDED: &str = include_str!("../../../assets/prompts/embedded.toml");

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PromptPreset {
    pub name: String,
    pub text: String,
    /// The system message; none leaves the chat template's own.
    #[serde(default)]
    pub system: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    prompt: Vec<PromptPreset>,
}

impl PromptPreset {
    /// The built-in presets: those that the embedded models were trained on, or for any others.
    pub fn built_in(embedded: bool) -> Vec<Self> {
        let text = if embedded { EMBEDDED } else { BUILT_IN };
        toml::from_str::<File>(text).map(|file| file.prompt).unwrap_or_default()
    }

    /// The user's presets; `None` if the file does not exist. Fails if it cannot be read, is malformed, or has an empty prompt
    /// or two of one name (class input).
    pub fn read(path: &Path) -> Result<Vec<Self>, Failure> {
        let failed = |problem: String, hint: &str| Failure {
            class: FailureClass::Input,
            error: format!("{}: {problem}", path.display()),
            hint: Some(hint.into()),
        };
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(error.to_string(), "make it readable")),
        };
        let form = "each preset is a [[prompt]] with name and text, and perhaps system";
        let file: File = toml::from_str(&text).map_err(|error| failed(error.to_string(), form))?;
        for (i, preset) in file.prompt.iter().enumerate() {
            if preset.name.trim().is_empty() || preset.text.trim().is_empty() {
                return Err(failed(format!("preset {} has no name or no text", i + 1), form));
            }
            if file.prompt[..i].iter().any(|other| other.name == preset.name) {
                return Err(failed(format!("two presets are named `{}`", preset.name), "rename one of them"));
            }
        }
        Ok(file.prompt)
    }

    /// All presets, the user's first; theirs replace built-in ones of the same name. Fails as [`PromptPreset::read`].
    pub fn all(embedded: bool, path: Option<&Path>) -> Result<Vec<Self>, Failure> {
        let mut all = path.map(Self::read).transpose()?.unwrap_or_default();
        for preset in Self::built_in(embedded) {
            if all.iter().all(|own| own.name != preset.name) {
                all.push(preset);
            }
        }
        Ok(all)
    }

    /// As [`PromptPreset::all`], followed by the built-in presets for other models: all that can be asked for by name.
    pub fn known(embedded: bool, path: Option<&Path>) -> Result<Vec<Self>, Failure> {
        let mut all = Self::all(embedded, path)?;
        all.extend(Self::built_in(!embedded));
        Ok(all)
    }

    /// The preset with a name, among [`PromptPreset::known`]. Fails if there is none (class usage), or as
    /// [`PromptPreset::read`].
    pub fn find(name: &str, embedded: bool, path: Option<&Path>) -> Result<Self, Failure> {
        let mut all = Self::known(embedded, path)?;
        let names: Vec<&str> = all.iter().map(|preset| preset.name.as_str()).collect();
        match names.iter().position(|known| *known == name) {
            Some(at) => Ok(all.swap_remove(at)),
            None => Err(Failure::usage(
                format!("unknown preset `{name}`"),
                format!("expected one of: {}", names.join(", ")),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_presets_come_first_and_replace_built_in_ones() {
        assert!([true, false].into_iter().all(|embedded| PromptPreset::built_in(embedded).len() >= 5));
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("prompts.toml");
        let all = |embedded| PromptPreset::all(embedded, Some(&path));
        assert_eq!(all(false).unwrap(), PromptPreset::built_in(false));
        let own = "[[prompt]]\nname = \"mine\"\ntext = \"A\"\nsystem = \"S\"\n[[prompt]]\nname = \"detail\"\ntext = \"B\"";
        std::fs::write(&path, own).unwrap();
        let found = all(true).unwrap();
        assert_eq!(found.len(), PromptPreset::built_in(true).len() + 1);
        assert_eq!((found[0].system.as_deref(), &*found[1].text), (Some("S"), "B"));
        let find = |name| PromptPreset::find(name, true, Some(&path));
        assert_eq!(find("detail").unwrap().text, "B");
        // Presets for other models can be found by name as well.
        assert!(find("motion").is_ok());
        let failure = find("nothing").unwrap_err();
        assert_eq!(failure.class, FailureClass::Usage);
        assert!(failure.hint.unwrap().starts_with("expected one of: mine, detail, "));

        for (bad, part) in [
            ("[[prompt]]\nname = \"a\"", "missing field `text`"),
            ("[[prompt]]\nname = \"a\"\ntext = \" \"", "preset 1 has no name or no text"),
            ("[[prompts]]\nname = \"a\"\ntext = \"b\"", "unknown field `prompts`"),
            (&[own, own].join("\n"), "two presets are named `mine`"),
        ] {
            std::fs::write(&path, bad).unwrap();
            let failure = all(false).unwrap_err();
            assert!(failure.error.contains(part), "{}", failure.error);
            assert_eq!(failure.class, FailureClass::Input);
        }
    }
}
