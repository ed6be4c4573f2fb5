//! `specreel config`: the user's files, whether they are valid, examples and schemas.

use super::*;
use crate::cli::args::config::{ConfigArgs, File, What};
use crate::look::{ColorDepth, DEFAULT_KEYMAP, Keymap, Theme};
use specreel_client::{Layer, PromptPreset, Setting, sampling::SamplingPresets};
use specreel_os::dirs::HOME;

/// A configuration file with every key, commented out.
const EXAMPLE: &str = include_str!("../../../assets/config.toml");

pub fn run(args: &ConfigArgs) -> Result<i32, End> {
    let mut out = std::io::stdout().lock();
    match args.what {
        Some(What::Example { file }) => {
            let text = match file {
                File::Config => EXAMPLE,
                File::Keymap => DEFAULT_KEYMAP,
                File::Theme => Theme::example(),
            };
            out.write_all(text.as_bytes())?;
        }
        Some(What::Schema { file }) => {
            let schema = match file {
                File::Config => Config::schema().into(),
                File::Keymap => Keymap::schema(),
                File::Theme => Theme::schema(),
            };
            writeln!(out, "{schema:#}")?;
        }
        None => return list(&mut out, args.json),
    }
    Ok(0)
}

struct UserFile {
    name: &'static str,
    path: PathBuf,
    exists: bool,
    problems: Vec<String>,
}

fn list(out: &mut impl Write, json: bool) -> Result<i32, End> {
    let Some(dirs) = Dirs::find() else {
        return Err(End::Failed(Failure::input("no home directory", format!("set {HOME}"))));
    };
    let files = check(&dirs);
    if json {
        let file = |f: &UserFile| {
            // One text or null: kept from the time when one problem was reported.
            let wrong = (!f.problems.is_empty()).then(|| f.problems.join("\n"));
            json!({"name": f.name, "path": f.path, "there": f.exists, "wrong": wrong})
        };
        writeln!(out, "{}", Value::from(files.iter().map(file).collect::<Vec<_>>()))?;
    } else {
        for f in &files {
            let state = match (f.problems.is_empty(), f.exists) {
                (false, _) => "wrong",
                (true, true) => "there",
                (true, false) => "none",
            };
            writeln!(out, "{:<8} {state:<6} {}", f.name, f.path.display())?;
        }
        writeln!(out, "\nTo print an example: specreel config example [config|keymap|theme]")?;
    }
    for wrong in files.iter().flat_map(|f| &f.problems) {
        tell!("error: {}", color::plain(wrong));
    }
    Ok(if files.iter().any(|f| !f.problems.is_empty()) { FailureClass::Input.exit_code() } else { 0 })
}

fn check(dirs: &Dirs) -> [UserFile; 6] {
    let config = dirs.config.join("config.toml");
    let keymap = dirs.config.join("keymap.toml");
    let themes = dirs.config.join("themes");
    let prompts = dirs.config.join("prompts.toml");
    let sampling = dirs.config.join("sampling.toml");
    let mistakes = match Config::read(&config) {
        Ok(config) => mistakes(&config),
        Err(failure) => vec![failure],
    };
    let texts = |failures: Vec<Failure>| failures.into_iter().map(|failure| failure.error).collect();
    let keys = Keymap::with_file(Some(&keymap)).err().map(|e| e.to_string());
    let looks = Theme::problems(&themes).iter().map(ToString::to_string).collect();
    let file = |name, path: PathBuf, problems| UserFile { name, exists: path.exists(), path, problems };
    [
        file("config", config, texts(mistakes)),
        file("keymap", keymap, keys.into_iter().collect()),
        file("themes", themes, looks),
        file("methods", user_methods::folder(dirs), texts(user_methods::all(Some(dirs)).1)),
        file("prompts", prompts.clone(), texts(PromptPreset::read(&prompts).err().into_iter().collect())),
        file(
            "sampling",
            sampling.clone(),
            texts(SamplingPresets::with_file(Some(&sampling)).err().into_iter().collect()),
        ),
    ]
}

/// Mistakes in values that can only be checked against the files that they name.
pub fn mistakes(config: &Config) -> Vec<Failure> {
    let settings = Settings::merge(Layer::default(), config);
    let dirs = Dirs::find();
    let mut all = Vec::new();
    if let Some(method) = &settings.method.value {
        all.extend(user_methods::find(method, dirs.as_ref()).err().map(|f| settings.method.blame(f)));
    }
    if let Some(preset) = &settings.preset.value {
        let file = asked::file(dirs.as_ref());
        all.extend(
            PromptPreset::find(preset, false, file.as_deref()).err().map(|f| settings.preset.blame(f)),
        );
    }
    if settings.prompt.value.as_ref().is_some_and(|prompt| prompt.trim().is_empty()) {
        let failure = Failure::input("the prompt is empty", "remove the line, or write a prompt");
        all.push(settings.prompt.blame(failure));
    }
    // Not from the merged settings, which drop a drafter without a target.
    let drafter = config.setting("drafter", config.values.drafter.clone());
    for (role, dir) in [("target", &settings.target), ("drafter", &drafter)] {
        if let Some(path) = &dir.value {
            all.extend(catalog::directory(role, path).err().map(|failure| dir.blame(failure)));
        }
    }
    if drafter.value.is_some() && settings.target.value.is_none() {
        let failure = Failure::input("not used without a target", "add a target, or remove the line");
        all.push(drafter.blame(failure));
    }
    for setting in [&settings.models, &settings.library] {
        for folder in setting.value.iter().flatten().filter(|folder| !folder.is_dir()) {
            let failure = Failure::input(
                format!("no such folder: {}", folder.display()),
                "check the path, or remove it",
            );
            all.push(setting.blame(failure));
        }
    }
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
    Some(setting.blame(Failure::input(
        format!("unknown theme `{name}`"),
        format!("expected one of: auto, {}", names.join(", ")),
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_has_every_key_and_is_valid() {
        let schema = Value::from(Config::schema());
        let keys: Vec<_> = schema["properties"].as_object().unwrap().keys().collect();
        // Explanations are sentences; a commented-out key is `#key = value`.
        let lines = EXAMPLE.lines().filter_map(|l| l.strip_prefix('#'));
        let lines: Vec<_> = lines.filter(|l| l.contains(" = ") && !l.starts_with(' ')).collect();
        for key in keys {
            let said = lines.iter().filter(|l| l.starts_with(&format!("{key} = "))).count();
            assert_eq!(said, 1, "{key} in assets/config.toml");
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.toml");
        std::fs::write(&path, lines.join("\n")).unwrap();
        assert_ne!(Config::read(&path).unwrap().values, Layer::default());
        std::fs::write(&path, EXAMPLE).unwrap();
        assert_eq!(Config::read(&path).unwrap().values, Layer::default());
    }

    #[test]
    fn schemas_have_every_key_of_the_built_in_files() {
        let themes = Theme::schema();
        let theme: toml::Table = toml::from_str(Theme::example()).unwrap();
        assert!(theme.keys().all(|role| themes["properties"].get(role).is_some()));
        let maps = Keymap::schema();
        let map: toml::Table = toml::from_str(DEFAULT_KEYMAP).unwrap();
        for (section, keys) in map {
            let known = &maps["properties"][&section]["properties"];
            assert!(keys.as_table().unwrap().keys().all(|action| known.get(action).is_some()), "{section}");
        }
    }
}
