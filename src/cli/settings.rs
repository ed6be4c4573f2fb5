//! The user's own files: where they are, whether they can be used, what they may say.

use std::{io::Write, path::PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};

use super::{End, color, config::Config, dirs::Dirs, user_methods};
use crate::{
    record::{Failure, FailureClass},
    tui::{DEFAULT_KEYMAP, Keymap, Theme},
};

/// A configuration with every key, commented out.
const EXAMPLE: &str = include_str!("../../assets/config.toml");

/// Arguments of `config`.
#[derive(Debug, Args)]
pub struct ConfigArgs {
    /// What to print; without it, where the files are and whether they can be used
    #[command(subcommand)]
    pub what: Option<What>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

impl ConfigArgs {
    /// True if stdout is JSON.
    pub fn json(&self) -> bool {
        self.json || matches!(self.what, Some(What::Schema { .. }))
    }
}

/// What can be printed.
#[derive(Clone, Copy, Debug, Subcommand)]
pub enum What {
    /// A file to begin with, all in it explained
    Example {
        /// Which file
        #[arg(value_enum, default_value = "config")]
        file: File,
    },
    /// What the file may say, as a JSON schema for editors
    Schema {
        /// Which file
        #[arg(value_enum, default_value = "config")]
        file: File,
    },
}

/// A file of the user's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum File {
    /// config.toml: defaults
    Config,
    /// keymap.toml: keys of the studio
    Keymap,
    /// themes/NAME.toml: colours of the studio
    Theme,
}

/// Do it.
///
/// # Errors
/// A file of the user's cannot be used (class input; all of them have been told), or stdout cannot be written.
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

/// One of the user's files, and what is wrong with it.
struct Found {
    name: &'static str,
    path: PathBuf,
    there: bool,
    wrong: Vec<String>,
}

fn list(out: &mut impl Write, json: bool) -> Result<i32, End> {
    let Some(dirs) = Dirs::find() else {
        return Err(End::Failed(Failure {
            class: FailureClass::Input,
            error: "there is no home directory, so there are no files of yours".into(),
            hint: Some("set HOME or XDG_CONFIG_HOME".into()),
        }));
    };
    let files = look(&dirs);
    if json {
        let file = |f: &Found| {
            // One text, or null: as it was when only one mistake was told.
            let wrong = (!f.wrong.is_empty()).then(|| f.wrong.join("\n"));
            json!({"name": f.name, "path": f.path, "there": f.there, "wrong": wrong})
        };
        writeln!(out, "{}", Value::from(files.iter().map(file).collect::<Vec<_>>()))?;
    } else {
        for f in &files {
            let state = match (f.wrong.is_empty(), f.there) {
                (false, _) => "wrong",
                (true, true) => "there",
                (true, false) => "none",
            };
            writeln!(out, "{:<8} {state:<6} {}", f.name, f.path.display())?;
        }
        writeln!(out, "\nspecreel config example [config|keymap|theme] prints one to begin with.")?;
    }
    for wrong in files.iter().flat_map(|f| &f.wrong) {
        tell!("error: {}", color::plain(wrong));
    }
    Ok(if files.iter().any(|f| !f.wrong.is_empty()) { FailureClass::Input.exit_code() } else { 0 })
}

fn look(dirs: &Dirs) -> [Found; 4] {
    let config = dirs.config.join("config.toml");
    let keymap = dirs.config.join("keymap.toml");
    let themes = dirs.config.join("themes");
    let said = match Config::read(&config) {
        Ok(config) => config.mistakes(),
        Err(failure) => vec![failure],
    };
    let told = |failures: Vec<Failure>| failures.into_iter().map(|failure| failure.error).collect();
    let keys = Keymap::with_file(Some(&keymap)).err().map(|e| e.to_string());
    let looks = Theme::problems(&themes).iter().map(ToString::to_string).collect();
    let found = |name, path: PathBuf, wrong| Found { name, there: path.exists(), path, wrong };
    [
        found("config", config, told(said)),
        found("keymap", keymap, keys.into_iter().collect()),
        found("themes", themes, looks),
        found("methods", user_methods::folder(dirs), told(user_methods::all(Some(dirs)).1)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_says_every_key_and_all_of_it_can_be_used() {
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
        assert_ne!(Config::read(&path).unwrap(), Config::default());
        std::fs::write(&path, EXAMPLE).unwrap();
        assert_eq!(Config::read(&path).unwrap(), Config::default());
    }

    #[test]
    fn schemas_know_what_the_built_in_files_say() {
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

    #[test]
    fn what_is_wrong_is_told_for_every_file() {
        let dir = tempfile::tempdir().unwrap();
        let of = |name: &str| dir.path().join(name);
        let dirs = Dirs { config: dir.path().into(), data: of("d"), state: of("s"), cache: of("c") };
        assert!(look(&dirs).iter().all(|f| f.wrong.is_empty()));
        std::fs::write(of("config.toml"), "them = \"dark\"").unwrap();
        std::fs::write(of("keymap.toml"), "[library]\nfly = [\"f\"]").unwrap();
        std::fs::create_dir(of("themes")).unwrap();
        std::fs::write(of("themes/mine.toml"), "accnt = {}").unwrap();
        std::fs::write(of("themes/other.toml"), "[accent]\nfg = \"teal\"").unwrap();
        std::fs::create_dir(of("methods")).unwrap();
        std::fs::write(of("methods/mine.toml"), "name = 3").unwrap();
        std::fs::write(of("methods/other.toml"), "= =").unwrap();
        let found = look(&dirs);
        let parts = [
            &["them"][..],
            &["fly"],
            &["mine.toml:1: accnt", "other.toml:1: accent.fg"],
            &["mine.toml", "other.toml"],
        ];
        for (file, parts) in found.iter().zip(parts) {
            assert!(file.there && file.wrong.len() == parts.len(), "{:?}", file.wrong);
            assert!(
                file.wrong.iter().zip(parts).all(|(wrong, part)| wrong.contains(part)),
                "{:?}",
                file.wrong
            );
        }
    }
}
