//! How a checkpoint wants its text sampled: `generation_config.json`, or `general.sampling.*` of a GGUF file.

use serde_json::{Map, Value};

/// What transformers keeps of the most likely tokens where a file that samples does not say.
const DEFAULT_TOP_K: usize = 50;

/// Below this, sampling takes the most likely token: other tokens have no chance in single precision.
const GREEDY: f64 = 1e-5;

/// The sampling that a checkpoint asks for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelSampling {
    /// `None` = greedy; the next three then say nothing.
    pub temperature: Option<f32>,
    /// Keep so many of the most likely tokens; 0 = all.
    pub top_k: usize,
    pub top_p: Option<f32>,
    pub min_p: Option<f32>,
    pub repetition_penalty: Option<f32>,
    /// Tokens that the repetition penalty counts; `None` = all.
    pub repetition_window: Option<usize>,
    pub no_repeat_ngram: Option<usize>,
    /// What it asks for besides, which has no effect: names with values.
    pub unsupported: Vec<String>,
    /// Where that is written.
    pub source: &'static str,
}

/// Fields that change what is written, and are not obeyed, with the values that turn them off. The last ones matter to sampled text only.
const UNSUPPORTED: [(&str, &[f64], bool); 18] = [
    ("num_beams", &[1.0], false),
    ("encoder_repetition_penalty", &[1.0], false),
    ("encoder_no_repeat_ngram_size", &[0.0], false),
    ("bad_words_ids", &[], false),
    ("sequence_bias", &[], false),
    ("suppress_tokens", &[], false),
    ("begin_suppress_tokens", &[], false),
    ("forced_bos_token_id", &[], false),
    ("forced_eos_token_id", &[], false),
    ("exponential_decay_length_penalty", &[], false),
    ("min_length", &[0.0], false),
    ("min_new_tokens", &[0.0], false),
    ("guidance_scale", &[1.0], false),
    ("penalty_alpha", &[0.0], false),
    ("typical_p", &[1.0], true),
    ("epsilon_cutoff", &[0.0], true),
    ("eta_cutoff", &[0.0], true),
    ("top_h", &[], true),
];

impl ModelSampling {
    /// Of `generation_config.json`, as transformers' `generate` obeys it.
    pub(super) fn of_generation_config(fields: &Map<String, Value>) -> Self {
        let mut sampling = Self { source: "generation_config.json", ..Self::default() };
        let samples = fields.get("do_sample").and_then(Value::as_bool) == Some(true);
        let mut wrong = Vec::new();
        let mut number = |key: &str, fits: fn(f64) -> bool| {
            let value = fields.get(key).filter(|value| !value.is_null())?;
            let number = value.as_f64().filter(|value| fits(*value));
            if number.is_none() {
                wrong.push(format!("{key} = {value}"));
            }
            number
        };
        let whole = |value: f64| value >= 0.0 && value.fract() == 0.0;
        if samples {
            let temperature = number("temperature", |t| (0.0..=100.0).contains(&t)).unwrap_or(1.0);
            sampling.temperature = (temperature > GREEDY).then_some(temperature as f32);
            sampling.top_k = match fields.get("top_k") {
                None => DEFAULT_TOP_K,
                Some(_) => number("top_k", whole).unwrap_or(0.0) as usize,
            };
            sampling.top_p = number("top_p", |p| p > 0.0 && p <= 1.0).map(|p| p as f32);
            sampling.min_p = number("min_p", |p| (0.0..=1.0).contains(&p)).map(|p| p as f32);
        }
        sampling.repetition_penalty = number("repetition_penalty", |p| p > 0.0).map(|p| p as f32);
        sampling.no_repeat_ngram = number("no_repeat_ngram_size", whole).map(|n| n as usize);
        let is_on = |(key, off, sampled): &&(&str, &[f64], bool)| {
            let empty = |value: &Value| value.is_null() || value.as_array().is_some_and(Vec::is_empty);
            let value = fields.get(*key).filter(|value| !empty(value));
            value.is_some_and(|value| !value.as_f64().is_some_and(|v| off.contains(&v)))
                && (samples || !sampled)
        };
        let shown = |(key, ..): &(&str, &[f64], bool)| (*key).to_owned();
        sampling.unsupported = wrong.into_iter().chain(UNSUPPORTED.iter().filter(is_on).map(shown)).collect();
        sampling
    }

    /// Of a GGUF file's numbers below `general.sampling`.
    pub(super) fn of_gguf(numbers: &[(&str, f64)]) -> Self {
        let mut sampling = Self { source: "its GGUF file", ..Self::default() };
        for &(key, value) in numbers {
            match key {
                "temp" if value > GREEDY => sampling.temperature = Some(value as f32),
                "top_k" => sampling.top_k = value.max(0.0) as usize,
                "top_p" if value > 0.0 && value < 1.0 => sampling.top_p = Some(value as f32),
                "min_p" if value > 0.0 && value <= 1.0 => sampling.min_p = Some(value as f32),
                "penalty_repeat" if value > 0.0 => sampling.repetition_penalty = Some(value as f32),
                "penalty_last_n" if value > 0.0 => sampling.repetition_window = Some(value as usize),
                "xtc_probability" | "mirostat" if value > 0.0 => sampling.unsupported.push(key.to_owned()),
                _ => {}
            }
        }
        sampling
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(value: &Value) -> ModelSampling {
        ModelSampling::of_generation_config(value.as_object().unwrap())
    }

    #[test]
    fn a_file_is_obeyed_as_transformers_does() {
        // Qwen3-VL's.
        let own = of(
            &json!({"do_sample": true, "top_p": 0.8, "top_k": 20, "temperature": 0.7, "repetition_penalty": 1.0}),
        );
        assert_eq!((own.temperature, own.top_k, own.top_p), (Some(0.7), 20, Some(0.8)));
        assert!(own.unsupported.is_empty());
        // Qwen2.5-VL's: sampled at a temperature at which nothing is left to chance.
        let own = of(&json!({"do_sample": true, "temperature": 0.000_001, "repetition_penalty": 1.05}));
        assert_eq!((own.temperature, own.repetition_penalty), (None, Some(1.05)));
        // What only sampling reads, without it.
        let own = of(&json!({"temperature": 0.7, "top_k": 20, "typical_p": 0.5, "no_repeat_ngram_size": 3}));
        assert_eq!((own.temperature, own.top_k, own.no_repeat_ngram), (None, 0, Some(3)));
        assert!(own.unsupported.is_empty());
        // Defaults of transformers.
        let own = of(&json!({"do_sample": true}));
        assert_eq!((own.temperature, own.top_k), (Some(1.0), 50));
        assert_eq!(of(&json!({"do_sample": true, "top_k": null})).top_k, 0);
    }

    #[test]
    fn what_is_not_obeyed_is_named() {
        let own = of(&json!({
            "do_sample": true, "num_beams": 4, "typical_p": 0.9, "temperature": "hot", "suppress_tokens": [], "min_length": 0,
            "bad_words_ids": [[1]], "max_new_tokens": 256, "transformers_version": "5.0.0",
        }));
        assert_eq!(own.unsupported, ["temperature = \"hot\"", "num_beams", "bad_words_ids", "typical_p"]);
        assert_eq!(own.temperature, Some(1.0));
    }

    #[test]
    fn a_gguf_file_samples_if_it_has_a_temperature() {
        let own = ModelSampling::of_gguf(&[("top_k", 20.0), ("penalty_repeat", 1.1), ("mirostat", 2.0)]);
        assert_eq!((own.temperature, own.top_k, own.repetition_penalty), (None, 20, Some(1.1)));
        assert_eq!(own.unsupported, ["mirostat"]);
        let own = ModelSampling::of_gguf(&[("temp", 0.6), ("top_p", 0.95), ("penalty_last_n", 64.0)]);
        assert_eq!((own.temperature, own.top_p, own.repetition_window), (Some(0.6), Some(0.95), Some(64)));
    }
}
