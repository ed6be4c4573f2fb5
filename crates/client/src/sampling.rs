//! How texts are sampled, from settings and presets.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use specreel_record::Failure;
use specreel_speculate::{ControlError, SamplingBase, SamplingControls};

use crate::{
    dirs::Dirs,
    settings::{Origin, Settings},
};

/// The presets that come with the program, as in `assets/sampling.toml`.
const BUILT_IN: &str = include_str!("../../../assets/sampling.toml");

/// The bases that need no preset.
const FIXED: [&str; 2] = ["model", "greedy"];

/// The file of the user's presets; it need not exist.
pub fn file(dirs: Option<&Dirs>) -> Option<PathBuf> {
    dirs.map(|dirs| dirs.config.join("sampling.toml"))
}

/// Named samplings: those of `assets/sampling.toml`, and the user's own.
#[derive(Clone, Debug, PartialEq)]
pub struct SamplingPresets(BTreeMap<String, SamplingControls>);

impl SamplingPresets {
    /// Those that come with the program.
    pub fn built_in() -> Self {
        Self(toml::from_str(BUILT_IN).unwrap_or_default())
    }

    /// Those, and the ones of a file, if it exists, which replace built-in ones of the same name. Fails if it cannot be read, is
    /// malformed, or a preset has a value that is not allowed or the name of another base (class input).
    pub fn with_file(file: Option<&Path>) -> Result<Self, Failure> {
        let Some(file) = file else { return Ok(Self::built_in()) };
        let failed =
            |problem: String, hint: &str| Failure::input(format!("{}: {problem}", file.display()), hint);
        let text = match std::fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Self::built_in()),
            Err(error) => return Err(failed(error.to_string(), "make it readable")),
        };
        let form = "each preset is a table, for example [mine], with values as in the configuration file";
        let own: BTreeMap<String, SamplingControls> =
            toml::from_str(&text).map_err(|error| failed(error.to_string(), form))?;
        for (name, preset) in &own {
            if FIXED.contains(&name.as_str()) || name.trim().is_empty() {
                return Err(failed(format!("a preset cannot be called `{name}`"), "rename it"));
            }
            preset.check().map_err(|ControlError { control, problem }| {
                failed(format!("preset `{name}`: {control}: {problem}"), HINT)
            })?;
        }
        let mut all = Self::built_in();
        all.0.extend(own);
        Ok(all)
    }

    /// The names of all bases: the model's own, greedy, and the presets.
    pub fn bases(&self) -> impl Iterator<Item = &str> {
        FIXED.into_iter().chain(self.0.keys().map(String::as_str))
    }

    /// The base of this name. Errors: what is expected, for people.
    pub fn base(&self, name: &str) -> Result<SamplingBase, String> {
        match (name, self.0.get(name)) {
            ("model", _) => Ok(SamplingBase::Model),
            ("greedy", _) => Ok(SamplingBase::Greedy),
            (_, Some(preset)) => Ok(SamplingBase::Preset(name.to_owned(), Box::new(preset.clone()))),
            (_, None) => {
                let names = self.bases().collect::<Vec<_>>().join(", ");
                Err(format!("no sampling is called `{name}`; expected one of: {names}"))
            }
        }
    }
}

/// The sampling of these settings, and these biases of ids.
/// Errors: a value is out of its range, or contradicts another; the failure names the flag, or the line of the configuration file.
/// Or as [`SamplingPresets::with_file`], if a base is named.
pub fn controls(
    settings: &Settings,
    logit_bias: Vec<(u32, f32)>,
    file: Option<&Path>,
) -> Result<SamplingControls, Failure> {
    let size = |value: Option<u32>| value.map(|value| value as usize);
    let base = match settings.sampling.value.as_deref() {
        None => SamplingBase::Model,
        Some(name) => {
            let presets = SamplingPresets::with_file(file)?;
            presets.base(name).map_err(|problem| settings.sampling.blame(Failure::usage(problem, HINT)))?
        }
    };
    let controls = SamplingControls {
        base,
        temperature: settings.temperature.value,
        top_k: size(settings.top_k.value),
        top_p: settings.top_p.value,
        min_p: settings.min_p.value,
        repetition_penalty: settings.repetition_penalty.value,
        repetition_window: size(settings.repetition_window.value),
        presence_penalty: settings.presence_penalty.value,
        frequency_penalty: settings.frequency_penalty.value,
        no_repeat_ngram: size(settings.no_repeat_ngram.value),
        dry_multiplier: settings.dry_multiplier.value,
        dry_base: settings.dry_base.value,
        dry_allowed_length: size(settings.dry_allowed_length.value),
        dry_window: size(settings.dry_window.value),
        dry_breakers: settings.dry_breakers.value.clone(),
        logit_bias,
        seed: settings.seed.value,
    };
    controls.check().map_err(|ControlError { control, problem }| match origin(settings, control) {
        Origin::Default => Failure::usage(format!("{control}: {problem}"), HINT),
        origin => origin.blame(Failure::usage(problem, HINT)),
    })?;
    Ok(controls)
}

const HINT: &str = "`specreel caption --help` has the ranges";

/// Where a control comes from.
fn origin<'s>(settings: &'s Settings, control: &str) -> &'s Origin {
    match control {
        "temperature" => &settings.temperature.origin,
        "top_k" => &settings.top_k.origin,
        "top_p" => &settings.top_p.origin,
        "min_p" => &settings.min_p.origin,
        "repetition_penalty" => &settings.repetition_penalty.origin,
        "presence_penalty" => &settings.presence_penalty.origin,
        "frequency_penalty" => &settings.frequency_penalty.origin,
        "dry_multiplier" => &settings.dry_multiplier.origin,
        "dry_base" => &settings.dry_base.origin,
        "dry_breakers" => &settings.dry_breakers.origin,
        _ => &Origin::Default,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_preset_is_read_and_valid() {
        let presets: BTreeMap<String, SamplingControls> = toml::from_str(BUILT_IN).unwrap();
        assert!(presets.len() >= 6);
        for (name, preset) in &presets {
            preset.check().unwrap_or_else(|error| panic!("{name}: {error:?}"));
            assert!(preset.temperature.is_some(), "{name}");
        }
    }

    #[test]
    fn a_name_that_is_no_sampling_is_refused_with_all_that_are() {
        let error = SamplingPresets::built_in().base("qwen3-v").unwrap_err();
        assert!(error.contains("qwen3-vl") && error.contains("model, greedy"), "{error}");
        assert_eq!(SamplingPresets::built_in().base("greedy"), Ok(SamplingBase::Greedy));
    }

    #[test]
    fn the_users_presets_replace_built_in_ones() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sampling.toml");
        let read = || SamplingPresets::with_file(Some(&path));
        assert_eq!(read().unwrap(), SamplingPresets::built_in());
        std::fs::write(&path, "[mine]\ntemperature = 0.4\ntop_k = 7\n[gemma]\ntemperature = 0\n").unwrap();
        let all = read().unwrap();
        assert_eq!(all.bases().count(), SamplingPresets::built_in().bases().count() + 1);
        let preset = |name| match all.base(name) {
            Ok(SamplingBase::Preset(_, preset)) => (preset.temperature, preset.top_k),
            other => panic!("{other:?}"),
        };
        assert_eq!((preset("mine"), preset("gemma")), ((Some(0.4), Some(7)), (Some(0.0), None)));
        for (wrong, part) in [
            ("[mine", "unclosed table"),
            ("[mine]\ntop_kk = 1", "unknown field `top_kk`"),
            ("[mine]\ntop_p = 2", "preset `mine`: top_p: 2 is not a number above 0, up to 1"),
            ("[mine]\ntemperature = 0\ntop_k = 4", "top_k: it has no effect at temperature 0"),
            ("[model]\ntop_k = 4", "a preset cannot be called `model`"),
        ] {
            std::fs::write(&path, wrong).unwrap();
            let failure = read().unwrap_err();
            assert!(failure.error.starts_with(&path.display().to_string()), "{}", failure.error);
            assert!(failure.error.contains(part), "{}", failure.error);
        }
    }
}
