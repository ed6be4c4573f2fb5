//! Values that shell completion offers, with descriptions where the shell shows them.
//!
//! They are looked up when Tab is pressed, so that your own methods and themes and downloaded models are among them. Nothing
//! here fails or prints: what cannot be read is not offered.

use std::ffi::OsStr;

use clap::Command;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter};

use super::*;
use crate::{cli::config, look::Theme};
use specreel_checkpoint::gguf::file_names;
use specreel_client::sampling::{self, SamplingPresets};
use specreel_client::{PromptPreset, toml_files};
use specreel_demo as assets;
use specreel_model::known::{KNOWN, KnownModel};
use specreel_speculate::method::{AXES, Key, Value as Takes};
use specreel_tensor::{KvType, WeightType};
use specreel_video::folder::is_video;

/// The command `name`, with a completer for each argument that has one.
pub fn attach(command: Command, name: &str) -> Command {
    let command = command.mut_args(|arg| match completer(name, arg.get_id().as_str()) {
        Some(completer) => arg.add(completer),
        None => arg,
    });
    command.mut_subcommands(|sub| {
        let name = format!("{name} {}", sub.get_name());
        attach(sub, name.trim_start())
    })
}

fn completer(command: &str, argument: &str) -> Option<ArgValueCompleter> {
    Some(match (command, argument) {
        ("" | "caption" | "compare" | "inspect" | "models advise", "video" | "videos") => videos(),
        ("compare", "methods") | (_, "method") | ("methods show", "name") => methods(),
        ("methods check", "file") => method_files(),
        (_, "set") => sets(),
        (_, "target" | "drafter") | ("models inspect" | "models remove", "model") => models(),
        (_, "preset") => presets(),
        (_, "sampling") => samplings(),
        (_, "on_loop") => among(|| plain(["stop", "retry", "keep"])),
        // GGUF files of any name.
        (_, "mmproj" | "drafter_mmproj") => ArgValueCompleter::new(PathCompleter::any().filter(is_gguf)),
        (_, "device" | "drafter_device") => {
            among(|| plain(["auto", "cpu"].into_iter().chain(accelerators())))
        }
        (_, "dtype" | "drafter_dtype") => dtypes(),
        (_, "tower_dtype") => tower_dtypes(),
        (_, "kv_type") => kv_types(),
        (_, "rope") => among(|| plain(["auto", "mrope", "sequential"])),
        (_, "theme") => themes(),
        ("man", "command") => subcommands(),
        ("models pull", "id") => published(),
        _ => return None,
    })
}

type Value = (String, Option<String>);

fn beginning(current: &OsStr, values: impl IntoIterator<Item = Value>) -> Vec<CompletionCandidate> {
    let Some(typed) = current.to_str() else { return Vec::new() };
    let begins = values.into_iter().filter(|(value, _)| value.starts_with(typed));
    begins.map(|(value, help)| CompletionCandidate::new(value).help(help.map(Into::into))).collect()
}

/// The same, and paths if none of them fits.
fn or_paths(current: &OsStr, values: Vec<Value>, paths: &PathCompleter) -> Vec<CompletionCandidate> {
    let found = beginning(current, values);
    if found.is_empty() { paths.complete(current) } else { found }
}

/// Completes to the values that begin with the typed text.
fn among<T: IntoIterator<Item = Value> + 'static>(values: fn() -> T) -> ArgValueCompleter {
    ArgValueCompleter::new(move |current: &OsStr| beginning(current, values()))
}

fn toml() -> PathCompleter {
    PathCompleter::file().filter(|path| path.extension().is_some_and(|ending| ending == "toml"))
}

fn plain(values: impl IntoIterator<Item = impl Into<String>>) -> Vec<Value> {
    values.into_iter().map(|value| (value.into(), None)).collect()
}

fn methods() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| or_paths(current, all_methods(), &toml()))
}

/// Your own methods, and files.
fn method_files() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| or_paths(current, own_methods(), &toml()))
}

fn all_methods() -> Vec<Value> {
    let built_in = Method::presets().iter().map(|method| (method.name.clone(), Some(method.about.clone())));
    let own = own_methods().into_iter().filter(|(name, _)| Method::preset(name).is_err());
    built_in.chain(own).collect()
}

fn own_methods() -> Vec<Value> {
    let names = user_methods::names(Dirs::find().as_ref());
    names.into_iter().map(|name| (name, Some("your own method".into()))).collect()
}

/// `axis.key=` of every axis, and after it the words that the key takes, or else its default. The axis may be left out.
fn sets() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let typed = current.to_string_lossy();
        let has_axis =
            typed.is_empty() || AXES.iter().any(|axis| axis.name.starts_with(&*typed)) || typed.contains('.');
        let mut values: Vec<Value> = Vec::new();
        for axis in AXES {
            for kind in axis.kinds {
                for key in kind.keys {
                    let name = if has_axis {
                        format!("{}.{}=", axis.name, key.name)
                    } else {
                        format!("{}=", key.name)
                    };
                    let set: Vec<String> = match typed.contains('=') {
                        true => choices(key).into_iter().map(|value| format!("{name}{value}")).collect(),
                        false => vec![name],
                    };
                    for set in set {
                        if !values.iter().any(|(value, _)| *value == set) {
                            values.push((set, Some(format!("of {} = {}", axis.name, kind.name))));
                        }
                    }
                }
            }
        }
        beginning(current, values)
    })
}

fn choices(key: &Key) -> Vec<&'static str> {
    match key.value {
        Takes::Word(words) | Takes::CountOr(words) => words.to_vec(),
        Takes::Flag => vec!["true", "false"],
        Takes::Number | Takes::Count => vec![key.example],
        Takes::Words | Takes::Choices => Vec::new(),
    }
}

/// Target models and small models: embedded, in configured folders, in caches, directories, GGUF files.
fn models() -> ArgValueCompleter {
    let is_model =
        |path: &Path| path.is_dir() || is_gguf(path) && !names_tower(path) && !names_later_part(path);
    ArgValueCompleter::new(move |current: &OsStr| {
        or_paths(current, all_models(), &PathCompleter::any().filter(is_model))
    })
}

fn is_gguf(path: &Path) -> bool {
    path.file_name().is_some_and(|name| file_names::is_gguf(&name.to_string_lossy())) && path.is_file()
}

fn names_tower(path: &Path) -> bool {
    path.file_name().is_some_and(|name| file_names::is_tower(&name.to_string_lossy()))
}

/// The first part of a split model stands for all.
fn names_later_part(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    file_names::part_of(&name).is_some_and(|(number, _)| number > 1)
}

fn all_models() -> Vec<Value> {
    let config = config::load().unwrap_or_default();
    local::names(&config).into_iter().map(|(name, origin)| (name, Some(origin.to_owned()))).collect()
}

/// Accelerators of this build that are Cargo features.
fn accelerators() -> impl Iterator<Item = &'static str> {
    let all = [
        ("gpu", cfg!(feature = "gpu")),
        ("cuda", cfg!(feature = "cuda")),
        ("metal", cfg!(feature = "metal")),
    ];
    all.into_iter().filter(|(_, built)| *built).map(|(name, _)| name)
}

fn dtypes() -> ArgValueCompleter {
    among(|| plain([WeightType::Auto].into_iter().chain(WeightType::ALL).map(WeightType::name)))
}

fn tower_dtypes() -> ArgValueCompleter {
    among(|| plain([WeightType::Auto].into_iter().chain(WeightType::TOWERS).map(WeightType::name)))
}

fn kv_types() -> ArgValueCompleter {
    among(|| plain([KvType::Auto].into_iter().chain(KvType::ALL).map(KvType::name)))
}

fn presets() -> ArgValueCompleter {
    among(|| {
        let file = asked::file(Dirs::find().as_ref());
        // With a broken file the built-in ones are there all the same.
        let all = PromptPreset::known(false, file.as_deref()).or_else(|_| PromptPreset::known(false, None));
        let all = all.unwrap_or_default();
        all.into_iter()
            .map(|preset| (preset.name, preset.text.lines().next().map(str::to_owned)))
            .collect::<Vec<_>>()
    })
}

fn samplings() -> ArgValueCompleter {
    among(|| {
        let file = sampling::file(Dirs::find().as_ref());
        // With a broken file the built-in ones are there all the same.
        let all = SamplingPresets::with_file(file.as_deref()).unwrap_or_else(|_| SamplingPresets::built_in());
        plain(all.bases().map(str::to_owned).collect::<Vec<_>>())
    })
}

/// Themes: built-in ones and your own.
fn themes() -> ArgValueCompleter {
    among(|| {
        let built_in = plain(std::iter::once("auto").chain(Theme::names()));
        let files = Dirs::find().map(|dirs| toml_files(&dirs.config.join("themes"))).unwrap_or_default();
        let name = |file: PathBuf| Some(file.file_stem()?.to_str()?.to_owned());
        let own = files.into_iter().filter_map(name).map(|name| (name, Some("your own theme".into())));
        built_in.into_iter().chain(own)
    })
}

fn videos() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let clips = (0..assets::clip_count()).map(|at| match at {
            0 => ("demo".to_owned(), Some("embedded clip".to_owned())),
            at => (format!("demo:{}", at + 1), Some("embedded clip".to_owned())),
        });
        let is_offered = |path: &Path| path.is_dir() || is_video(path);
        let mut found = PathCompleter::any().filter(is_offered).stdio().complete(current);
        found.extend(beginning(current, clips));
        found
    })
}

fn subcommands() -> ArgValueCompleter {
    among(|| {
        let root = Cli::command();
        let about = |sub: &Command| sub.get_about().map(ToString::to_string);
        root.get_subcommands().map(|sub| (sub.get_name().to_owned(), about(sub))).collect::<Vec<_>>()
    })
}

fn published() -> ArgValueCompleter {
    among(|| {
        let about = |known: &KnownModel| known.sizes().map(|sizes| sizes.family.name.to_owned());
        KNOWN.iter().map(move |known| (known.id.to_owned(), about(known)))
    })
}
