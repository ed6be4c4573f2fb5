//! What a request says of sampling, and what becomes of it with a model.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};
use specreel_model::text::ModelSampling;

use super::{
    processors::{Dry, Processors},
    sampling::Sampler,
};

/// Where the values come from that a request leaves open.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum SamplingBase {
    /// The checkpoint's `generation_config.json` or GGUF metadata.
    #[default]
    Model,
    /// The most likely token, nothing processed.
    Greedy,
    /// A preset by its name.
    Preset(String, Box<SamplingControls>),
}

/// How a request wants its text sampled. What is `None` is the base's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SamplingControls {
    #[serde(skip)]
    pub base: SamplingBase,
    /// 0 = greedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f32>,
    /// Keep so many of the most likely tokens; 0 = all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_k: Option<usize>,
    /// Nucleus mass in (0, 1].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f32>,
    /// Keep the tokens of at least this share of the most likely one's probability.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_p: Option<f32>,
    /// 1 = none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repetition_penalty: Option<f32>,
    /// Tokens that the repetition penalty counts; 0 = all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repetition_window: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub presence_penalty: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frequency_penalty: Option<f32>,
    /// 0 = none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_repeat_ngram: Option<usize>,
    /// 0 = no DRY penalty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dry_multiplier: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dry_base: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dry_allowed_length: Option<usize>,
    /// 0 = prompt and text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dry_window: Option<usize>,
    /// Texts that no repetition extends over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dry_breakers: Option<Vec<String>>,
    /// Added to the logits of these ids.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub logit_bias: Vec<(u32, f32)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
}

/// What breaks repetitions, if a request does not say; llama.cpp's.
const BREAKERS: [&str; 4] = ["\n", ":", "\"", "*"];

/// What each try at a text that repeated itself adds to the DRY multiplier; what its authors recommend for all of it.
const RETRY_DRY: f32 = 0.8;

/// A value that is not allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlError {
    /// The control's name, as in the configuration file.
    pub control: &'static str,
    /// What is wrong, and what is expected.
    pub problem: String,
}

/// How a text is sampled; by default greedily, without changes to the rows.
#[derive(Clone, Debug, PartialEq)]
pub struct TextSampling {
    pub sampler: Sampler,
    /// Without the ids of DRY's breakers, which a tokenizer knows.
    pub processors: Processors,
    pub breakers: Vec<String>,
}

impl Default for TextSampling {
    fn default() -> Self {
        let breakers = BREAKERS.map(str::to_owned).to_vec();
        Self { sampler: Sampler::GREEDY, processors: Processors::default(), breakers }
    }
}

impl From<Sampler> for SamplingControls {
    fn from(sampler: Sampler) -> Self {
        Self {
            base: SamplingBase::Greedy,
            temperature: Some(sampler.temperature),
            top_k: (sampler.top_k > 0).then_some(sampler.top_k),
            top_p: (sampler.top_p != 1.0).then_some(sampler.top_p),
            min_p: (sampler.min_p > 0.0).then_some(sampler.min_p),
            seed: Some(sampler.seed),
            ..Self::default()
        }
    }
}

impl SamplingControls {
    /// The most likely token, regardless of what the model asks for.
    pub fn greedy() -> Self {
        Self { base: SamplingBase::Greedy, ..Self::default() }
    }

    /// Errors: the first value that is out of its range, or that contradicts another.
    pub fn check(&self) -> Result<(), ControlError> {
        if let SamplingBase::Preset(_, preset) = &self.base {
            preset.check()?;
        }
        number("temperature", self.temperature, 0.0..=100.0)?;
        number("min_p", self.min_p, 0.0..=1.0)?;
        number("presence_penalty", self.presence_penalty, -100.0..=100.0)?;
        number("frequency_penalty", self.frequency_penalty, -100.0..=100.0)?;
        number("repetition_penalty", self.repetition_penalty, 0.01..=100.0)?;
        number("dry_multiplier", self.dry_multiplier, 0.0..=100.0)?;
        number("dry_base", self.dry_base, 1.0..=100.0)?;
        if let Some(top_p) = self.top_p.filter(|p| !(*p > 0.0 && *p <= 1.0)) {
            return Err(wrong("top_p", format!("{top_p} is not a number above 0, up to 1")));
        }
        if let Some((id, bias)) = self.logit_bias.iter().find(|(_, bias)| bias.is_nan()) {
            return Err(wrong("logit_bias", format!("{bias} of id {id} is not a number")));
        }
        if self.dry_breakers.iter().flatten().any(String::is_empty) {
            return Err(wrong("dry_breakers", "a text is empty".to_owned()));
        }
        match self.in_vain() {
            Some(control) if self.temperature.or_else(|| self.base_temperature()) == Some(0.0) => Err(wrong(
                control,
                "it has no effect at temperature 0, which takes the most likely token".into(),
            )),
            _ => Ok(()),
        }
    }

    /// The base's temperature, if it is known without a model.
    fn base_temperature(&self) -> Option<f32> {
        match &self.base {
            SamplingBase::Model => None,
            SamplingBase::Greedy => Some(0.0),
            SamplingBase::Preset(_, preset) => Some(preset.temperature.unwrap_or(0.0)),
        }
    }

    /// The first control that only has an effect at a temperature above 0.
    fn in_vain(&self) -> Option<&'static str> {
        let cuts = [
            ("top_k", self.top_k.is_some_and(|k| k > 0)),
            ("top_p", self.top_p.is_some_and(|p| p < 1.0)),
            ("min_p", self.min_p.is_some_and(|p| p > 0.0)),
        ];
        cuts.into_iter().find(|(_, on)| *on).map(|(name, _)| name)
    }

    /// True unless nothing is drawn at random; with the model as base that is known once the model is.
    pub fn may_draw(&self) -> bool {
        self.temperature.or_else(|| self.base_temperature()).is_none_or(|temperature| temperature > 0.0)
    }

    /// What holds for a model.
    pub fn resolve(&self, model: &ModelSampling) -> TextSampling {
        let base = match &self.base {
            SamplingBase::Greedy => TextSampling::default(),
            SamplingBase::Model => TextSampling::of_model(model),
            SamplingBase::Preset(_, preset) => {
                SamplingControls { base: SamplingBase::Greedy, ..(**preset).clone() }.resolve(model)
            }
        };
        let TextSampling { sampler, processors, breakers } = base;
        let Processors { dry, .. } = processors;
        let temperature = self.temperature.unwrap_or(sampler.temperature);
        let sampler = Sampler {
            temperature,
            top_k: self.top_k.unwrap_or(sampler.top_k),
            top_p: self.top_p.unwrap_or(sampler.top_p),
            min_p: self.min_p.unwrap_or(sampler.min_p),
            seed: self.seed.unwrap_or(sampler.seed),
        };
        TextSampling {
            // Greedy texts are compared by their samplers: what has no effect does not make them differ.
            sampler: if temperature > 0.0 {
                sampler
            } else {
                Sampler { seed: sampler.seed, ..Sampler::GREEDY }
            },
            processors: Processors {
                bias: if self.logit_bias.is_empty() { processors.bias } else { self.logit_bias.clone() },
                repetition_penalty: self.repetition_penalty.unwrap_or(processors.repetition_penalty),
                repetition_window: self.repetition_window.unwrap_or(processors.repetition_window),
                no_repeat_ngram: self.no_repeat_ngram.unwrap_or(processors.no_repeat_ngram),
                presence_penalty: self.presence_penalty.unwrap_or(processors.presence_penalty),
                frequency_penalty: self.frequency_penalty.unwrap_or(processors.frequency_penalty),
                dry: Dry {
                    multiplier: self.dry_multiplier.unwrap_or(dry.multiplier),
                    base: self.dry_base.unwrap_or(dry.base),
                    allowed: self.dry_allowed_length.unwrap_or(dry.allowed),
                    window: self.dry_window.unwrap_or(dry.window),
                    breakers: dry.breakers,
                },
            },
            breakers: self.dry_breakers.clone().unwrap_or(breakers),
        }
    }

    /// Those of another try, of which there were so many before, at a text that repeated itself without end: with the next seed, and
    /// a DRY multiplier that is higher by 0.8 each time.
    pub fn retried(&self, tries: u32, model: &ModelSampling) -> Self {
        let TextSampling { sampler, processors, .. } = self.resolve(model);
        let seed = sampler.seed.wrapping_add(u64::from(tries));
        Self {
            seed: if sampler.is_greedy() { self.seed } else { Some(seed) },
            dry_multiplier: Some(processors.dry.multiplier + RETRY_DRY * tries as f32),
            ..self.clone()
        }
    }

    /// What a user should know: what holds, if a model asked for it, and what has no effect.
    pub fn notes(&self, model: &ModelSampling, name: &str) -> Vec<String> {
        let sampling = self.resolve(model);
        let mut notes = Vec::new();
        if self.base == SamplingBase::Model {
            let asked = TextSampling::of_model(model).describe();
            if asked != GREEDY {
                let source = model.source;
                let instead = match sampling.describe() {
                    now if now == asked => String::new(),
                    now => format!("; with the options given: {now}"),
                };
                notes.push(format!("sampling as {source} of {name} asks: {asked}{instead}"));
            }
            if !model.unsupported.is_empty() {
                let (fields, source) = (model.unsupported.join(", "), model.source);
                notes.push(format!("{source} of {name} asks for what is not supported: {fields}"));
            }
        }
        if let Some(control) = self.in_vain().filter(|_| sampling.sampler.is_greedy()) {
            notes.push(format!("{control} has no effect: at temperature 0 the most likely token is taken"));
        }
        notes
    }
}

fn wrong(control: &'static str, problem: String) -> ControlError {
    ControlError { control, problem }
}

fn number(control: &'static str, value: Option<f32>, range: RangeInclusive<f32>) -> Result<(), ControlError> {
    match value.filter(|value| !range.contains(value)) {
        None => Ok(()),
        Some(value) => {
            let (least, most) = range.into_inner();
            Err(wrong(control, format!("{value} is not a number from {least} to {most}")))
        }
    }
}

/// Plain greedy decoding in words.
const GREEDY: &str = "greedy";

impl TextSampling {
    fn of_model(model: &ModelSampling) -> Self {
        let sampler = match model.temperature {
            None => Sampler::GREEDY,
            Some(temperature) => Sampler {
                temperature,
                top_k: model.top_k,
                top_p: model.top_p.unwrap_or(1.0),
                min_p: model.min_p.unwrap_or(0.0),
                seed: 0,
            },
        };
        let processors = Processors {
            repetition_penalty: model.repetition_penalty.unwrap_or(1.0),
            repetition_window: model.repetition_window.unwrap_or(0),
            no_repeat_ngram: model.no_repeat_ngram.unwrap_or(0),
            ..Processors::default()
        };
        Self { sampler, processors, ..Self::default() }
    }

    /// What it does, in words.
    pub fn describe(&self) -> String {
        let Self { sampler, processors, .. } = self;
        let mut parts = match sampler.is_greedy() {
            true => vec![GREEDY.to_owned()],
            false => vec![format!("temperature {}", sampler.temperature)],
        };
        let mut say = |on: bool, what: String| parts.extend(on.then_some(what));
        say(!sampler.is_greedy() && sampler.top_k > 0, format!("top-k {}", sampler.top_k));
        say(!sampler.is_greedy() && sampler.top_p < 1.0, format!("top-p {}", sampler.top_p));
        say(!sampler.is_greedy() && sampler.min_p > 0.0, format!("min-p {}", sampler.min_p));
        say(
            processors.repetition_penalty != 1.0,
            format!("repetition penalty {}", processors.repetition_penalty),
        );
        say(processors.presence_penalty != 0.0, format!("presence penalty {}", processors.presence_penalty));
        say(
            processors.frequency_penalty != 0.0,
            format!("frequency penalty {}", processors.frequency_penalty),
        );
        say(processors.no_repeat_ngram > 0, format!("no repeated {}-grams", processors.no_repeat_ngram));
        say(processors.dry.multiplier > 0.0, format!("DRY {}", processors.dry.multiplier));
        say(!processors.bias.is_empty(), format!("bias of {} ids", processors.bias.len()));
        parts.join(", ")
    }

    /// True if it takes the most likely token of rows as they are.
    pub fn is_plain(&self) -> bool {
        self.sampler.is_greedy() && self.processors.are_idle()
    }

    /// All of it for a report, as it is written in a configuration file; what is off is left out.
    pub fn report(&self) -> SamplingControls {
        let Self { sampler, processors, breakers } = self;
        let Processors { dry, .. } = processors;
        let sampled = !sampler.is_greedy();
        let penalized = dry.multiplier != 0.0;
        let repetition = processors.repetition_penalty;
        let on = |value: f32| Some(value).filter(|value| *value != 0.0);
        let some = |value: usize| Some(value).filter(|value| *value > 0);
        SamplingControls {
            base: SamplingBase::Greedy,
            temperature: Some(sampler.temperature),
            top_k: some(sampler.top_k),
            top_p: Some(sampler.top_p).filter(|p| *p < 1.0),
            min_p: on(sampler.min_p),
            repetition_penalty: Some(repetition).filter(|penalty| *penalty != 1.0),
            repetition_window: some(processors.repetition_window).filter(|_| repetition != 1.0),
            presence_penalty: on(processors.presence_penalty),
            frequency_penalty: on(processors.frequency_penalty),
            no_repeat_ngram: some(processors.no_repeat_ngram),
            dry_multiplier: on(dry.multiplier),
            dry_base: penalized.then_some(dry.base),
            dry_allowed_length: penalized.then_some(dry.allowed),
            dry_window: some(dry.window).filter(|_| penalized),
            dry_breakers: penalized.then(|| breakers.clone()),
            logit_bias: processors.bias.clone(),
            seed: sampled.then_some(sampler.seed),
        }
    }
}

impl std::fmt::Display for ControlError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.control, self.problem)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model() -> ModelSampling {
        ModelSampling {
            temperature: Some(0.7),
            top_k: 20,
            top_p: Some(0.8),
            repetition_penalty: Some(1.05),
            unsupported: vec!["num_beams".into()],
            source: "generation_config.json",
            ..ModelSampling::default()
        }
    }

    #[test]
    fn what_is_left_open_is_the_bases() {
        let of = |controls: &SamplingControls| controls.resolve(&model());
        let own = of(&SamplingControls::default());
        assert_eq!(own.describe(), "temperature 0.7, top-k 20, top-p 0.8, repetition penalty 1.05");
        let warm = SamplingControls { temperature: Some(1.5), top_k: Some(0), ..SamplingControls::default() };
        assert_eq!(of(&warm).describe(), "temperature 1.5, top-p 0.8, repetition penalty 1.05");
        // Nothing is cut off the most likely token, but it is still penalized.
        let cold = SamplingControls { temperature: Some(0.0), ..SamplingControls::default() };
        assert_eq!(of(&cold).describe(), "greedy, repetition penalty 1.05");
        assert_eq!(of(&SamplingControls::greedy()), TextSampling::default());
        let preset = SamplingControls {
            temperature: Some(1.0),
            presence_penalty: Some(1.5),
            ..SamplingControls::default()
        };
        let base = SamplingBase::Preset("own".into(), Box::new(preset));
        let chosen = SamplingControls { base, min_p: Some(0.1), ..SamplingControls::default() };
        assert_eq!(of(&chosen).describe(), "temperature 1, min-p 0.1, presence penalty 1.5");
    }

    #[test]
    fn a_report_resolves_to_itself() {
        let sampling =
            SamplingControls { dry_multiplier: Some(0.8), ..SamplingControls::default() }.resolve(&model());
        assert_eq!(sampling.report().resolve(&ModelSampling::default()), sampling);
        assert_eq!(TextSampling::default().report(), SamplingControls::from(Sampler::GREEDY).plain());
    }

    impl SamplingControls {
        fn plain(self) -> Self {
            Self { seed: None, ..self }
        }
    }

    #[test]
    fn users_are_told_what_the_model_asks_for_and_what_is_not_obeyed() {
        let notes = SamplingControls::default().notes(&model(), "big");
        assert_eq!(
            notes,
            [
                "sampling as generation_config.json of big asks: temperature 0.7, top-k 20, top-p 0.8, repetition penalty 1.05",
                "generation_config.json of big asks for what is not supported: num_beams",
            ]
        );
        assert!(SamplingControls::greedy().notes(&model(), "big").is_empty());
        assert!(SamplingControls::default().notes(&ModelSampling::default(), "big").is_empty());
        let cut = SamplingControls { top_k: Some(5), ..SamplingControls::default() };
        assert_eq!(
            cut.notes(&ModelSampling::default(), "big"),
            ["top_k has no effect: at temperature 0 the most likely token is taken"]
        );
    }

    #[test]
    fn values_out_of_range_and_contradictions_are_named() {
        let none = SamplingControls::default;
        for (controls, control) in [
            (SamplingControls { temperature: Some(-1.0), ..none() }, "temperature"),
            (SamplingControls { temperature: Some(f32::NAN), ..none() }, "temperature"),
            (SamplingControls { top_p: Some(0.0), ..none() }, "top_p"),
            (SamplingControls { min_p: Some(1.5), ..none() }, "min_p"),
            (SamplingControls { repetition_penalty: Some(0.0), ..none() }, "repetition_penalty"),
            (SamplingControls { dry_base: Some(0.5), ..none() }, "dry_base"),
            (SamplingControls { logit_bias: vec![(1, f32::NAN)], ..none() }, "logit_bias"),
            (SamplingControls { dry_breakers: Some(vec![String::new()]), ..none() }, "dry_breakers"),
            (SamplingControls { top_k: Some(5), ..SamplingControls::greedy() }, "top_k"),
            (SamplingControls { top_p: Some(0.9), temperature: Some(0.0), ..none() }, "top_p"),
        ] {
            assert_eq!(controls.check().unwrap_err().control, control);
        }
        for fine in [
            none(),
            SamplingControls { top_k: Some(5), ..none() },
            SamplingControls { top_k: Some(5), temperature: Some(0.5), ..SamplingControls::greedy() },
            SamplingControls { logit_bias: vec![(1, f32::NEG_INFINITY)], ..none() },
        ] {
            assert_eq!(fine.check(), Ok(()));
        }
    }
}
