//! How texts are sampled, from settings and presets.

use std::{collections::BTreeMap, sync::LazyLock};

use specreel_record::Failure;
use specreel_speculate::{ControlError, SamplingBase, SamplingControls};

use crate::settings::{Origin, Settings};

/// The presets that come with the program, as in `assets/sampling.toml`.
const PRESETS: &str = include_str!("../../../assets/sampling.toml");

static BY_NAME: LazyLock<BTreeMap<String, SamplingControls>> =
    LazyLock::new(|| toml::from_str(PRESETS).unwrap_or_default());

/// The presets, by name.
pub fn presets() -> &'static BTreeMap<String, SamplingControls> {
    &BY_NAME
}

/// The base of this name: `model`, `greedy`, or a preset.
/// Errors: what is expected, for people.
pub fn base(name: &str) -> Result<SamplingBase, String> {
    match name {
        "model" => Ok(SamplingBase::Model),
        "greedy" => Ok(SamplingBase::Greedy),
        _ => match BY_NAME.get(name) {
            Some(preset) => Ok(SamplingBase::Preset(name.to_owned(), Box::new(preset.clone()))),
            None => {
                let fixed = ["model", "greedy"].map(str::to_owned);
                let names: Vec<String> = fixed.into_iter().chain(BY_NAME.keys().cloned()).collect();
                Err(format!("no sampling is called `{name}`; expected one of: {}", names.join(", ")))
            }
        },
    }
}

/// The sampling of these settings, and these biases of ids.
/// Errors: a value is out of its range, or contradicts another; the failure names the flag, or the line of the configuration file.
pub fn controls(settings: &Settings, logit_bias: Vec<(u32, f32)>) -> Result<SamplingControls, Failure> {
    let size = |value: Option<u32>| value.map(|value| value as usize);
    let base = match settings.sampling.value.as_deref() {
        None => SamplingBase::Model,
        Some(name) => base(name).map_err(|problem| settings.sampling.blame(Failure::usage(problem, HINT)))?,
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
        let presets: BTreeMap<String, SamplingControls> = toml::from_str(PRESETS).unwrap();
        assert!(presets.len() >= 6);
        for (name, preset) in &presets {
            preset.check().unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(preset.temperature.is_some(), "{name}");
        }
    }

    #[test]
    fn a_name_that_is_no_sampling_is_refused_with_all_that_are() {
        let error = base("qwen3-v").unwrap_err();
        assert!(error.contains("qwen3-vl") && error.contains("model, greedy"), "{error}");
        assert_eq!(base("greedy"), Ok(SamplingBase::Greedy));
    }
}
