//! How the texts of the next runs are sampled: a base, and values that are set over it, as rows that can be changed one by one.

use std::sync::Arc;

use specreel_client::sampling::SamplingPresets;
use specreel_engine::RunRequest;
use specreel_model::text::ModelSampling;
use specreel_record::OnLoop;
use specreel_speculate::{ControlError, SamplingBase, SamplingControls, TextSampling};

/// The sampling of runs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SamplingChoice {
    pub controls: SamplingControls,
    /// What becomes of a caption that repeats itself without end.
    pub on_loop: OnLoop,
    presets: Arc<SamplingPresets>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Row {
    Base,
    Value(&'static Control),
    OnLoop,
}

/// A value that can be set over the base's.
#[derive(Debug)]
pub(crate) struct Control {
    pub name: &'static str,
    pub about: &'static str,
    /// A value that is often used.
    pub example: &'static str,
    /// Its name in the configuration file.
    key: &'static str,
    /// Checkpoints may ask for it.
    is_models: bool,
    kind: Kind,
}

/// What a control is in the controls of a request, and the values that keys step through.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Real(fn(&mut SamplingControls) -> &mut Option<f32>, &'static [f32]),
    Size(fn(&mut SamplingControls) -> &mut Option<usize>, &'static [usize]),
    /// Each number is a step.
    Seed,
}

static CONTROLS: [Control; 14] = [
    Control {
        name: "temperature",
        about: "0 takes the most likely token; higher is more varied",
        example: "0.7",
        key: "temperature",
        is_models: true,
        kind: Kind::Real(
            |controls| &mut controls.temperature,
            &[0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.5, 2.0],
        ),
    },
    Control {
        name: "top-k",
        about: "keep so many of the most likely tokens; 0 keeps all",
        example: "20",
        key: "top_k",
        is_models: true,
        kind: Kind::Size(|controls| &mut controls.top_k, &[0, 5, 10, 20, 40, 50, 64, 100, 200]),
    },
    Control {
        name: "top-p",
        about: "keep the most likely tokens up to this total probability; 1 keeps all",
        example: "0.8",
        key: "top_p",
        is_models: true,
        kind: Kind::Real(
            |controls| &mut controls.top_p,
            &[0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0],
        ),
    },
    Control {
        name: "min-p",
        about: "keep tokens of at least this share of the highest probability; 0 keeps all",
        example: "0.05",
        key: "min_p",
        is_models: true,
        kind: Kind::Real(|controls| &mut controls.min_p, &[0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3]),
    },
    Control {
        name: "repetition penalty",
        about: "makes tokens of prompt and text less likely; 1 is none",
        example: "1.05",
        key: "repetition_penalty",
        is_models: true,
        kind: Kind::Real(
            |controls| &mut controls.repetition_penalty,
            &[1.0, 1.02, 1.05, 1.1, 1.15, 1.2, 1.3, 1.5],
        ),
    },
    Control {
        name: "repetition window",
        about: "the repetition penalty counts so many of the last tokens; 0 counts all",
        example: "64",
        key: "repetition_window",
        is_models: true,
        kind: Kind::Size(|controls| &mut controls.repetition_window, &[0, 32, 64, 128, 256, 512, 1024]),
    },
    Control {
        name: "presence penalty",
        about: "subtracted from the logits of tokens that occur in the text",
        example: "1.5",
        key: "presence_penalty",
        is_models: false,
        kind: Kind::Real(|controls| &mut controls.presence_penalty, &[0.0, 0.2, 0.5, 1.0, 1.5, 2.0]),
    },
    Control {
        name: "frequency penalty",
        about: "subtracted from the logit of a token for each time it occurs in the text",
        example: "0.5",
        key: "frequency_penalty",
        is_models: false,
        kind: Kind::Real(|controls| &mut controls.frequency_penalty, &[0.0, 0.2, 0.5, 1.0, 1.5, 2.0]),
    },
    Control {
        name: "no-repeat n-gram",
        about: "no sequence of so many tokens is written twice; 0 allows it",
        example: "3",
        key: "no_repeat_ngram",
        is_models: true,
        kind: Kind::Size(|controls| &mut controls.no_repeat_ngram, &[0, 2, 3, 4, 5, 6, 8, 10]),
    },
    Control {
        name: "DRY multiplier",
        about: "penalty on a token that would extend a repetition; 0 is none",
        example: "0.8",
        key: "dry_multiplier",
        is_models: false,
        kind: Kind::Real(|controls| &mut controls.dry_multiplier, &[0.0, 0.4, 0.8, 1.2, 1.6, 2.0]),
    },
    Control {
        name: "DRY base",
        about: "growth of the DRY penalty with each repeated token",
        example: "1.75",
        key: "dry_base",
        is_models: false,
        kind: Kind::Real(|controls| &mut controls.dry_base, &[1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0]),
    },
    Control {
        name: "DRY allowed length",
        about: "repetitions of fewer tokens have no DRY penalty",
        example: "2",
        key: "dry_allowed_length",
        is_models: false,
        kind: Kind::Size(|controls| &mut controls.dry_allowed_length, &[1, 2, 3, 4, 5, 6, 8, 10]),
    },
    Control {
        name: "DRY window",
        about: "DRY looks at so many of the last tokens; 0 looks at all",
        example: "1024",
        key: "dry_window",
        is_models: false,
        kind: Kind::Size(|controls| &mut controls.dry_window, &[0, 128, 256, 512, 1024, 2048]),
    },
    Control {
        name: "seed",
        about: "the same seed draws the same text",
        example: "0",
        key: "seed",
        is_models: false,
        kind: Kind::Seed,
    },
];

/// How many rows there are.
pub(crate) const ROWS: usize = CONTROLS.len() + 2;

/// The rows: the base, the values, what becomes of a loop.
pub(crate) fn row(at: usize) -> Row {
    match at.checked_sub(1) {
        None => Row::Base,
        Some(at) => CONTROLS.get(at).map_or(Row::OnLoop, Row::Value),
    }
}

/// What becomes of a loop, in the order of the keys, with its name and in words.
const ON_LOOP: [(OnLoop, &str, &str); 3] = [
    (OnLoop::Stop, "stop", "stopped"),
    (OnLoop::Retry, "retry", "written again"),
    (OnLoop::Keep, "keep", "kept"),
];

impl Row {
    pub fn name(self) -> &'static str {
        match self {
            Row::Base => "base",
            Row::Value(control) => control.name,
            Row::OnLoop => "on a loop",
        }
    }

    pub fn about(self) -> &'static str {
        match self {
            Row::Base => "where the values come from that are not set here",
            Row::Value(control) => control.about,
            Row::OnLoop => "what becomes of a caption that repeats itself without end",
        }
    }
}

impl Control {
    /// The value in these controls, if it is set there.
    fn of(&self, controls: &SamplingControls) -> Option<String> {
        let mut controls = controls.clone();
        match self.kind {
            Kind::Real(field, _) => field(&mut controls).map(|value| value.to_string()),
            Kind::Size(field, _) => field(&mut controls).map(|value| value.to_string()),
            Kind::Seed => controls.seed.map(|value| value.to_string()),
        }
    }

    /// Take the value over, set or not.
    fn copy(&self, from: &SamplingControls, to: &mut SamplingControls) {
        let mut from = from.clone();
        match self.kind {
            Kind::Real(field, _) => *field(to) = *field(&mut from),
            Kind::Size(field, _) => *field(to) = *field(&mut from),
            Kind::Seed => to.seed = from.seed,
        }
    }

    /// Set the step above or below the value; false if there is none.
    fn step(&self, controls: &mut SamplingControls, up: bool) -> bool {
        match self.kind {
            Kind::Real(field, steps) => beside(field(controls), steps, up),
            Kind::Size(field, steps) => beside(field(controls), steps, up),
            Kind::Seed => {
                let seed = controls.seed.unwrap_or_default();
                let next = if up { seed.checked_add(1) } else { seed.checked_sub(1) };
                controls.seed = next.or(controls.seed);
                next.is_some()
            }
        }
    }

    /// Set a value that is typed. Errors: what is expected, for people.
    fn set(&self, typed: &str, controls: &mut SamplingControls) -> Result<(), String> {
        let expected = |what: &str| format!("{}: {typed} is not a {what}", self.name);
        match self.kind {
            Kind::Real(field, _) => {
                *field(controls) = Some(typed.parse().map_err(|_| expected("number"))?);
            }
            Kind::Size(field, _) => {
                let size: u32 = typed.parse().map_err(|_| expected("whole number from 0 to 4294967295"))?;
                *field(controls) = Some(size as usize);
            }
            Kind::Seed => controls.seed = Some(typed.parse().map_err(|_| expected("whole number from 0"))?),
        }
        Ok(())
    }
}

/// Change a value to the step above or below it; false if there is none.
fn beside<T: Copy + PartialOrd>(value: &mut Option<T>, steps: &[T], up: bool) -> bool {
    let next = value.and_then(|now| match up {
        true => steps.iter().find(|step| **step > now),
        false => steps.iter().rev().find(|step| **step < now),
    });
    *value = next.copied().or(*value);
    next.is_some()
}

impl Default for SamplingChoice {
    /// What the model asks for; loops are stopped.
    fn default() -> Self {
        let presets = Arc::new(SamplingPresets::built_in());
        Self { controls: SamplingControls::default(), on_loop: OnLoop::Stop, presets }
    }
}

impl SamplingChoice {
    /// The sampling that a request has, and what it can be based on.
    pub fn of(request: &RunRequest, presets: &Arc<SamplingPresets>) -> Self {
        Self { controls: request.text.clone(), on_loop: request.on_loop, presets: presets.clone() }
    }

    /// The request with this sampling.
    pub fn asked(&self, request: RunRequest) -> RunRequest {
        RunRequest { text: self.controls.clone(), on_loop: self.on_loop, ..request }
    }

    /// The names of the bases.
    pub fn bases(&self) -> Vec<&str> {
        self.presets.bases().collect()
    }

    /// What a base does, in words.
    pub fn describe_base(&self, name: &str) -> String {
        match self.presets.base(name) {
            Ok(SamplingBase::Model) => "what the model asks for".into(),
            Ok(base) => SamplingControls { base, ..SamplingControls::default() }
                .resolve(&ModelSampling::default())
                .describe(),
            Err(problem) => problem,
        }
    }

    pub fn base(&self) -> &str {
        match &self.controls.base {
            SamplingBase::Model => "model",
            SamplingBase::Greedy => "greedy",
            SamplingBase::Preset(name, _) => name,
        }
    }

    /// True if only the engine knows the base's value.
    fn is_open(&self, control: &Control) -> bool {
        control.is_models && self.controls.base == SamplingBase::Model
    }

    /// All values of the base, as if the model had no defaults of its own.
    fn of_base(&self) -> SamplingControls {
        let base = SamplingControls { base: self.controls.base.clone(), ..SamplingControls::default() };
        all(&base.resolve(&ModelSampling::default()))
    }

    /// The value of a row that holds; none if only the engine knows it.
    pub fn value(&self, row: Row) -> Option<String> {
        match row {
            Row::Base => Some(self.base().to_owned()),
            Row::Value(control) => control.of(&self.controls).or_else(|| {
                let is_known = !self.is_open(control);
                is_known.then(|| control.of(&self.of_base())).flatten()
            }),
            Row::OnLoop => Some(self.loops().0.into()),
        }
    }

    /// True if the row has a value of its own instead of the base's.
    pub fn is_set(&self, row: Row) -> bool {
        matches!(row, Row::Value(control) if control.of(&self.controls).is_some())
    }

    /// Where the value of a row comes from.
    pub fn source(&self, row: Row) -> &str {
        match row {
            Row::Base | Row::OnLoop => "",
            Row::Value(_) if self.is_set(row) => "set here",
            // No model asks for it.
            Row::Value(control) if !control.is_models && self.controls.base == SamplingBase::Model => {
                "default"
            }
            Row::Value(_) => self.base(),
        }
    }

    /// Errors: the first value that is not allowed, for people.
    fn with(&self, controls: SamplingControls) -> Result<Self, String> {
        match controls.check() {
            Ok(()) => Ok(Self { controls, ..self.clone() }),
            Err(ControlError { control, problem }) => {
                let named = CONTROLS.iter().find(|named| named.key == control);
                Err(format!("{}: {problem}", named.map_or(control, |named| named.name)))
            }
        }
    }

    /// With the base of this name. Errors: why not, for people.
    pub fn on(&self, base: &str) -> Result<Self, String> {
        self.with(SamplingControls { base: self.presets.base(base)?, ..self.controls.clone() })
    }

    /// With a row adjusted up or down. Errors: why not, for people.
    pub fn turned(&self, row: Row, up: bool) -> Result<Self, String> {
        match row {
            Row::Base => self.turned_base(up),
            Row::OnLoop => {
                let (at, n) = (self.loop_at(), ON_LOOP.len());
                let (on_loop, ..) = ON_LOOP[(if up { at + 1 } else { at + n - 1 }) % n];
                Ok(Self { on_loop, ..self.clone() })
            }
            Row::Value(control) => {
                let mut controls = self.controls.clone();
                if !self.is_set(row) {
                    control.copy(&self.of_base(), &mut controls);
                }
                // What the model asks for is not known: any value is another one.
                let is_other = control.step(&mut controls, up) || !self.is_set(row) && self.is_open(control);
                match is_other {
                    true => self.with(controls),
                    false => Err(format!("already at the {}", if up { "maximum" } else { "minimum" })),
                }
            }
        }
    }

    /// With the next base that goes with the values that are set.
    fn turned_base(&self, up: bool) -> Result<Self, String> {
        let bases = self.bases();
        let n = bases.len();
        let at = bases.iter().position(|base| *base == self.base()).unwrap_or(0);
        let mut problem = None;
        for by in 1..n {
            let next = if up { at + by } else { at + n - by };
            match self.on(bases[next % n]) {
                Ok(turned) => return Ok(turned),
                Err(error) => problem = problem.or(Some(error)),
            }
        }
        Err(problem.unwrap_or_else(|| "no other base".into()))
    }

    /// With a value that was typed; empty for the base's. Errors: why not, for people.
    pub fn typed(&self, control: &Control, typed: &str) -> Result<Self, String> {
        let mut controls = self.controls.clone();
        match typed.trim() {
            "" => control.copy(&SamplingControls::default(), &mut controls),
            typed => control.set(typed, &mut controls)?,
        }
        self.with(controls)
    }

    /// With a row as the base has it; base and loops, and all with the base, as they were at the start. Errors: why not, for people.
    pub fn reset(&self, row: Row, start: &Self) -> Result<Self, String> {
        match row {
            Row::Base => Ok(start.clone()),
            Row::OnLoop => Ok(Self { on_loop: start.on_loop, ..self.clone() }),
            Row::Value(control) => self.typed(control, ""),
        }
    }

    /// What is set over the base.
    fn changes(&self) -> Vec<String> {
        let named = |control: &Control| Some(format!("{} {}", control.name, control.of(&self.controls)?));
        let mut changes: Vec<String> = CONTROLS.iter().filter_map(named).collect();
        changes
            .extend(self.controls.dry_breakers.as_ref().map(|texts| format!("{} DRY breakers", texts.len())));
        let biased = self.controls.logit_bias.len();
        changes.extend((biased > 0).then(|| format!("bias of {biased} ids")));
        changes
    }

    /// Its name, with what is set over the base; none if all is as the model asks and loops are stopped.
    pub fn label(&self) -> Option<String> {
        let base = Some(self.base().to_owned()).filter(|base| base != "model");
        let loops = (self.on_loop != OnLoop::Stop).then(|| format!("loops {}", self.loops().1));
        let words: Vec<String> = base.into_iter().chain(self.changes()).chain(loops).collect();
        (!words.is_empty()).then(|| words.join(", "))
    }

    fn loop_at(&self) -> usize {
        ON_LOOP.iter().position(|(on_loop, ..)| *on_loop == self.on_loop).unwrap_or_default()
    }

    /// The name of what becomes of a loop, and that in words.
    fn loops(&self) -> (&'static str, &'static str) {
        let (_, name, words) = ON_LOOP[self.loop_at()];
        (name, words)
    }

    /// What holds, in words.
    pub fn describe(&self) -> String {
        let (changes, (_, loops)) = (self.changes().join(", "), self.loops());
        let text = match &self.controls.base {
            SamplingBase::Model if changes.is_empty() => "as the model asks".into(),
            SamplingBase::Model => format!("as the model asks, with {changes}"),
            _ => self.controls.resolve(&ModelSampling::default()).describe(),
        };
        format!("{text}; loops are {loops}")
    }
}

/// All values, those that are off included.
fn all(TextSampling { sampler, processors, breakers }: &TextSampling) -> SamplingControls {
    let dry = &processors.dry;
    SamplingControls {
        base: SamplingBase::Greedy,
        temperature: Some(sampler.temperature),
        top_k: Some(sampler.top_k),
        top_p: Some(sampler.top_p),
        min_p: Some(sampler.min_p),
        repetition_penalty: Some(processors.repetition_penalty),
        repetition_window: Some(processors.repetition_window),
        presence_penalty: Some(processors.presence_penalty),
        frequency_penalty: Some(processors.frequency_penalty),
        no_repeat_ngram: Some(processors.no_repeat_ngram),
        dry_multiplier: Some(dry.multiplier),
        dry_base: Some(dry.base),
        dry_allowed_length: Some(dry.allowed),
        dry_window: Some(dry.window),
        dry_breakers: Some(breakers.clone()),
        logit_bias: processors.bias.clone(),
        seed: Some(sampler.seed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(base: &str) -> SamplingChoice {
        SamplingChoice::default().on(base).unwrap()
    }

    fn find(name: &str) -> Row {
        (0..ROWS).map(row).find(|row| row.name() == name).unwrap_or_else(|| panic!("no {name}"))
    }

    fn typed(choice: &SamplingChoice, name: &str, text: &str) -> Result<SamplingChoice, String> {
        let Row::Value(control) = find(name) else { panic!("{name} is not typed") };
        choice.typed(control, text)
    }

    fn value(choice: &SamplingChoice, name: &str) -> (Option<String>, String) {
        let row = find(name);
        (choice.value(row), choice.source(row).to_owned())
    }

    fn known(value: &str, source: &str) -> (Option<String>, String) {
        (Some(value.into()), source.into())
    }

    #[test]
    fn each_control_is_named_as_in_the_configuration_and_steps_through_valid_values() {
        let config = include_str!("../../../assets/config.toml");
        for control in &CONTROLS {
            assert!(config.contains(&format!("\n#{} = ", control.key)), "{}", control.key);
            let row = Row::Value(control);
            // At a temperature above 0 everything has an effect.
            let warm = typed(&on("gemma"), "temperature", "0.5").unwrap();
            typed(&warm, control.name, control.example).unwrap();
            for up in [true, false] {
                let mut choice = warm.clone();
                let mut steps = 0;
                while let Ok(next) = choice.turned(row, up).map_err(|problem| assert!(!problem.is_empty())) {
                    next.controls.check().unwrap();
                    assert_ne!(next.value(row), choice.value(row), "{}", control.name);
                    (choice, steps) = (next, steps + 1);
                    if steps == 20 {
                        break;
                    }
                }
                let ends = match control.kind {
                    Kind::Seed => up && steps == 20 || !up && steps == 0,
                    _ => steps < 20,
                };
                assert!(ends, "{} {up}: {steps}", control.name);
            }
        }
    }

    #[test]
    fn values_and_their_sources_are_known_unless_the_model_has_them() {
        let model = SamplingChoice::default();
        assert_eq!(value(&model, "temperature"), (None, "model".into()));
        assert_eq!(value(&model, "presence penalty"), known("0", "default"));
        assert_eq!(value(&model, "DRY base"), known("1.75", "default"));
        assert_eq!(value(&on("greedy"), "temperature"), known("0", "greedy"));
        let preset = on("qwen3-vl");
        assert_eq!(value(&preset, "top-k"), known("20", "qwen3-vl"));
        assert_eq!(value(&preset, "presence penalty"), known("1.5", "qwen3-vl"));
        assert_eq!(
            value(&preset, "repetition penalty"),
            known("1", "qwen3-vl"),
            "the card says nothing of it"
        );
        let warm = typed(&preset, "temperature", " 0.25 ").unwrap();
        assert_eq!(value(&warm, "temperature"), known("0.25", "set here"));
        let back = typed(&warm, "temperature", "").unwrap();
        assert_eq!(back, preset);
        assert_eq!(value(&preset, "on a loop"), known("stop", ""));
    }

    #[test]
    fn a_value_that_the_model_has_starts_where_nothing_is_changed() {
        let model = SamplingChoice::default();
        let turned = |name: &str, up| value(&model.turned(find(name), up).unwrap(), name);
        assert_eq!(turned("temperature", true), known("0.1", "set here"));
        assert_eq!(turned("temperature", false), known("0", "set here"));
        assert_eq!(turned("top-p", true), known("1", "set here"));
        assert_eq!(turned("repetition penalty", true), known("1.02", "set here"));
        // Nothing is below what is known to be at its minimum.
        assert_eq!(model.turned(find("presence penalty"), false), Err("already at the minimum".into()));
    }

    #[test]
    fn what_is_wrong_is_said_and_changes_nothing() {
        let warm = on("gemma");
        for (name, text, problem) in [
            ("temperature", "101", "temperature: 101 is not a number from 0 to 100"),
            ("top-p", "0", "top-p: 0 is not a number above 0, up to 1"),
            ("min-p", "NaN", "min-p: NaN is not a number from 0 to 1"),
            ("DRY base", "much", "DRY base: much is not a number"),
            ("top-k", "-1", "top-k: -1 is not a whole number from 0 to 4294967295"),
            ("seed", "1.5", "seed: 1.5 is not a whole number from 0"),
        ] {
            assert_eq!(typed(&warm, name, text).unwrap_err(), problem);
        }
        let in_vain = typed(&on("greedy"), "top-k", "5").unwrap_err();
        assert!(in_vain.starts_with("top-k: it has no effect at temperature 0"), "{in_vain}");
        let cut = typed(&warm, "top-k", "5").unwrap();
        assert!(cut.on("greedy").unwrap_err().starts_with("top-k"));
        assert_eq!(typed(&warm, "seed", "18446744073709551615").unwrap().controls.seed, Some(u64::MAX));
    }

    #[test]
    fn the_bases_take_turns_without_those_that_contradict_a_value() {
        let turns = |mut choice: SamplingChoice, up| {
            let mut names = Vec::new();
            for _ in 0..choice.bases().len() {
                choice = choice.turned(Row::Base, up).unwrap();
                names.push(choice.base().to_owned());
            }
            names
        };
        let all = turns(SamplingChoice::default(), true);
        assert_eq!((all[0].as_str(), all.last().unwrap().as_str()), ("greedy", "model"));
        assert_eq!(
            turns(SamplingChoice::default(), false)[0],
            *SamplingChoice::default().bases().last().unwrap()
        );
        let cut = typed(&SamplingChoice::default(), "top-k", "5").unwrap();
        assert!(!turns(cut, true).contains(&"greedy".to_owned()));
    }

    #[test]
    fn a_request_has_what_was_chosen() {
        let chosen = typed(&on("qwen3-vl"), "seed", "7").unwrap().turned(Row::OnLoop, true).unwrap();
        let request = chosen.asked(RunRequest::default());
        assert_eq!((request.text.seed, request.on_loop), (Some(7), OnLoop::Retry));
        assert_eq!(SamplingChoice::of(&request, &chosen.presets), chosen);
        let start = SamplingChoice::default();
        assert_eq!(chosen.reset(Row::Base, &start), Ok(start.clone()));
        assert_eq!(chosen.reset(find("seed"), &start).unwrap().controls, on("qwen3-vl").controls);
        assert_eq!(chosen.reset(Row::OnLoop, &start).unwrap().on_loop, OnLoop::Stop);
    }

    #[test]
    fn it_is_told_in_a_few_words_and_in_all() {
        let model = SamplingChoice::default();
        assert_eq!((model.label(), model.describe()), (None, "as the model asks; loops are stopped".into()));
        let set = typed(&model, "temperature", "0.5").unwrap();
        assert_eq!(set.label().unwrap(), "temperature 0.5");
        assert_eq!(set.describe(), "as the model asks, with temperature 0.5; loops are stopped");
        let kept = typed(&on("gemma"), "top-k", "0").unwrap().turned(Row::OnLoop, false).unwrap();
        assert_eq!(kept.label().unwrap(), "gemma, top-k 0, loops kept");
        assert_eq!(kept.describe(), "temperature 1, top-p 0.95; loops are kept");
        assert_eq!(on("greedy").describe(), "greedy; loops are stopped");
        assert_eq!(model.describe_base("model"), "what the model asks for");
        assert!(model.describe_base("qwen3-vl").starts_with("temperature 0.7"));
        let biased = SamplingControls { logit_bias: vec![(1, 2.0)], ..SamplingControls::default() };
        assert_eq!(model.with(biased).unwrap().label().unwrap(), "bias of 1 ids");
    }
}
