//! The user's `config.toml`.

use super::{dirs::Dirs, resolve, user_methods};
use crate::tui::{ColorDepth, Theme};
pub use specreel_client::Config;
use specreel_client::{Layer, Setting, Settings, present};
use specreel_record::{Failure, FailureClass};

/// Read the user's file; a missing file is an empty one.
///
/// # Errors
/// As [`Config::read`].
pub fn load() -> Result<Config, Failure> {
    match Dirs::find() {
        Some(dirs) => Config::read(&dirs.config.join("config.toml")),
        None => Ok(Config::default()),
    }
}

/// What is wrong with values that can only be checked against what they name.
pub fn mistakes(config: &Config) -> Vec<Failure> {
    let settings = Settings::merge(Layer::default(), config);
    let dirs = Dirs::find();
    let input =
        |error: String, hint: &str| Failure { class: FailureClass::Input, error, hint: Some(hint.into()) };
    let mut all = Vec::new();
    if let Some(method) = &settings.method.value {
        all.extend(user_methods::find(method, dirs.as_ref()).err().map(|f| settings.method.blame(f)));
    }
    if settings.prompt.value.as_ref().is_some_and(|prompt| prompt.trim().is_empty()) {
        let failure = input("the prompt is empty".into(), "remove the line, or write a prompt");
        all.push(settings.prompt.blame(failure));
    }
    // Not from the merged settings, which drop a drafter without a target.
    let drafter = config.setting("drafter", config.values.drafter.clone());
    for (role, dir) in [("target", &settings.target), ("drafter", &drafter)] {
        if let Some(path) = &dir.value {
            all.extend(resolve::model_directory(role, path).err().map(|failure| dir.blame(failure)));
        }
    }
    if drafter.value.is_some() && settings.target.value.is_none() {
        let failure = input("not used without a target".into(), "add a target, or remove the line");
        all.push(drafter.blame(failure));
    }
    for setting in [&settings.models, &settings.library] {
        for folder in setting.value.iter().flatten().filter(|folder| !folder.is_dir()) {
            let failure =
                input(format!("no such folder: {}", folder.display()), "check the path, or remove it");
            all.push(setting.blame(failure));
        }
    }
    let profile = settings.profile.value.as_deref().map(present::modelled::load);
    all.extend(profile.and_then(Result::err).map(|failure| settings.profile.blame(failure)));
    all.extend(theme(&settings.theme, dirs));
    all
}

/// The failure of an unknown theme. A broken theme file is reported on its own.
fn theme(setting: &Setting<String>, dirs: Option<Dirs>) -> Option<Failure> {
    let name = setting.value.as_deref().filter(|name| *name != "auto")?;
    let folder = dirs.map(|dirs| dirs.config.join("themes"));
    let themes = Theme::all(folder.as_deref(), ColorDepth::True).ok()?;
    if themes.iter().any(|known| known.name == name) {
        return None;
    }
    let names: Vec<&str> = themes.iter().map(|theme| theme.name.as_str()).collect();
    Some(setting.blame(Failure {
        class: FailureClass::Input,
        error: format!("unknown theme `{name}`"),
        hint: Some(format!("expected one of: auto, {}", names.join(", "))),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_name_nothing_are_reported_with_their_keys() {
        let parse = |text: &str| Config::parse(text, "config.toml".as_ref()).unwrap();
        let text = "method = \"nope\"\nprompt = \" \"\ndrafter = \"/no/dir\"\nmodels = [\"/no/models\"]\ntheme = \"nope\"";
        let found = mistakes(&parse(text));
        let parts = [
            ":1: method: unknown method `nope`",
            ":2: prompt: the prompt is empty",
            ":3: drafter: drafter model /no/dir: ",
            ":3: drafter: not used without a target",
            ":4: models: no such folder: /no/models",
            ":5: theme: unknown theme `nope`",
        ];
        assert_eq!(found.len(), parts.len(), "{found:?}");
        for (mistake, part) in found.iter().zip(parts) {
            let error = &mistake.error;
            assert!(error.starts_with("configuration file config.toml") && error.contains(part), "{error}");
        }
        assert_eq!(mistakes(&parse("theme = \"auto\"\nmethod = \"fly\"")), []);
    }
}
