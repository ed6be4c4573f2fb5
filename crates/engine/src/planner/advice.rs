//! The expected gain of each drafter with models that need not be loaded: the figures that an automatic
//! method would use, and how well they are known.

use std::{
    path::Path,
    sync::{Mutex, PoisonError},
};

use super::{
    choice::{Candidate, Question, Speeds},
    knowledge::{key, learn_further, passing},
    profile::Profile,
};
use crate::{
    events::{CancelTokens, EVENTS, EventSender},
    models::{
        Halves, Kept,
        memory_check::{Footprint, Video},
    },
    timing::{Part, Rates, passes, rates},
};
use specreel_model::{ModelSpec, inspect::Facts, processor::Grid};
use specreel_record::Failure;
use specreel_speculate::{
    Drafter, Method, VisualContext,
    auto::{Contender, SHARES},
};

/// Tokens of a prompt besides the video.
const TEXT: usize = 64;

/// How often drafts may fail relative to the expectation if nothing is known of a drafter: from half to four
/// times as often.
const ASSUMED: [f64; 2] = [0.5, 4.0];
/// Possible error of a chance that was measured only once, or for another form of the drafter.
const APART: f64 = 0.1;
/// Smallest possible error of a chance.
const NEAR: f64 = 0.02;
/// How many times as long a row of the drafter may take if its time is estimated.
const ESTIMATED_ROW: f64 = 1.5;

/// Expected gains for a clip.
#[derive(Clone, Debug)]
pub struct Advice {
    /// The clip that the figures are for: its visual tokens, and the length of the prompt.
    pub visual_tokens: usize,
    pub prompt_tokens: usize,
    /// The expected length of the text.
    pub text_tokens: usize,
    /// Milliseconds per token of the target alone.
    pub token_ms: f64,
    /// The drafters, fastest first, including no drafter.
    pub drafters: Vec<Expectation>,
}

/// The expected gain of a drafter.
#[derive(Clone, Debug)]
pub struct Expectation {
    pub drafter: Drafter,
    /// The part of the video that it sees.
    pub context: VisualContext,
    /// Speedup over the target alone, including the time until the drafter has read the prompt: lowest,
    /// expected, highest.
    pub speedup: [f64; 3],
    /// Milliseconds before the first draft: the drafter's tower and prompt.
    pub reading_ms: f64,
    /// Milliseconds per draft.
    pub draft_ms: f64,
    /// The chance that a draft passes once those before it have.
    pub chance: f64,
    pub acceptance: Evidence,
    pub speed: Evidence,
}

/// How a figure is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// The number of measurements on this machine; 0 for what takes no time, or drafts nothing.
    Measured(u64),
    /// Derived from the same drafter in another form, or from the bytes that its passes read.
    Estimated,
    /// Typical of most models.
    Assumed,
}

/// Computes expectations from the speeds that are known on this machine.
pub struct Advisor {
    rates: Rates,
    /// The profiles of models that were read.
    profiles: Mutex<Vec<(ModelSpec, Profile)>>,
}

/// The clip to caption.
#[derive(Clone, Copy, Debug)]
struct Clip {
    visual: usize,
    patches: Grid,
    new_tokens: usize,
}

impl Advisor {
    /// An advisor with the speeds in a file; without a file, no speeds are known. Fails if the file is
    /// damaged.
    pub fn open(speeds: Option<&Path>) -> Result<Self, Failure> {
        let mut rates = Rates::default();
        if let Some(file) = speeds {
            if let Some(problem) = rates::damage(file) {
                return Err(Failure::input(
                    format!("measured speeds {}: {problem}", file.display()),
                    "remove the file; runs will measure again",
                ));
            }
            rates.keep_in(file.to_owned());
        }
        Ok(Self { rates, profiles: Mutex::default() })
    }

    /// Bytes that a row of a pair's draft model reads; 0 without a draft model. Fails if files cannot be
    /// read.
    pub fn draft_bytes(&self, spec: &ModelSpec) -> Result<usize, Failure> {
        Ok(self.profile(spec)?.drafter.map_or(0, |drafter| drafter.row_bytes))
    }

    fn profile(&self, spec: &ModelSpec) -> Result<Profile, Failure> {
        let mut profiles = self.profiles.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = profiles.iter().find(|(other, _)| other == spec) {
            return Ok(known.clone());
        }
        let profile = Profile::read(spec)?;
        profiles.push((spec.clone(), profile.clone()));
        Ok(profile)
    }

    /// The drafters for the target of a pair on a video (by default the family's example). `relatives` are
    /// the same pair with the drafter in other forms: figures that are not known are estimated from theirs.
    /// `None` if the target's speeds are not known. Fails if files cannot be read.
    pub fn advise(
        &self,
        spec: &ModelSpec,
        relatives: &[ModelSpec],
        video: Option<&Video>,
    ) -> Result<Option<Advice>, Failure> {
        let clip = Clip::of(spec, video)?;
        let profile = self.profile(spec)?;
        let mut lent = self.rates.clone();
        for relative in relatives.iter().filter(|relative| *relative != spec) {
            lend(&mut lent, &self.profile(relative)?, &profile);
        }
        Ok(self.expect(&profile, &lent, clip))
    }

    fn expect(&self, profile: &Profile, lent: &Rates, clip: Clip) -> Option<Advice> {
        let mut expected = Vec::new();
        let method = |drafter| Method { drafter, context: VisualContext::Auto {}, ..Method::default() };
        let own = Drafter::Target { dtype: Default::default() };
        let mut text = None;
        for method in [method(Drafter::Auto {}), method(own)] {
            let question = clip.question(profile, &method);
            let speeds = question.speeds(lent, 0.0)?;
            let tokens = question.tokens(lent);
            text = Some((question.prompt, tokens, speeds.target_ms));
            let candidates = question.candidates(lent, &speeds);
            expected.extend(
                candidates.iter().map(|candidate| self.of(candidate, profile, lent, &speeds, tokens)),
            );
        }
        expected.sort_by(|a, b| b.speedup[1].total_cmp(&a.speedup[1]));
        let (prompt_tokens, text_tokens, token_ms) = text?;
        let visual_tokens = clip.visual;
        Some(Advice { visual_tokens, prompt_tokens, text_tokens, token_ms, drafters: expected })
    }

    fn of(
        &self,
        candidate: &Candidate,
        profile: &Profile,
        lent: &Rates,
        speeds: &Speeds,
        tokens: usize,
    ) -> Expectation {
        let Contender { drafter, context, cost, further, .. } = &candidate.contender;
        let (acceptance, chance_off) = self.acceptance(drafter, profile, lent);
        let (speed, row_off) = self.speed(drafter, profile);
        let alone_ms = tokens as f64 * speeds.target_ms;
        let failing = match acceptance {
            Evidence::Assumed => ASSUMED,
            _ => [-chance_off, chance_off]
                .map(|off| ((1.0 - cost.chance + off) / (1.0 - cost.chance).max(0.005)).max(0.0)),
        };
        let speedup = |failing: f64, row: f64| {
            alone_ms / cost.with(failing, row).expected_ms(None, tokens, speeds.target_ms, *further).max(1e-9)
        };
        let drafts = *drafter != (Drafter::None {});
        let speedup = match drafts {
            true => [
                speedup(failing[1], row_off),
                alone_ms / candidate.ms.max(1e-9),
                speedup(failing[0], 1.0 / row_off),
            ],
            false => [1.0; 3],
        };
        Expectation {
            drafter: drafter.clone(),
            context: context.clone(),
            speedup,
            reading_ms: cost.front_ms,
            draft_ms: cost.row_ms,
            chance: cost.chance,
            acceptance,
            speed,
        }
    }

    /// How a drafter's acceptance chance is known, and its possible error.
    fn acceptance(&self, drafter: &Drafter, profile: &Profile, lent: &Rates) -> (Evidence, f64) {
        if *drafter == (Drafter::None {}) {
            return (Evidence::Measured(0), 0.0);
        }
        let names = || SHARES.into_iter().filter_map(|share| key(&passing(share), drafter, profile));
        let measured =
            names().filter_map(|name| self.rates.how_measured(&name)).max_by_key(|known| known.times);
        match measured {
            Some(known) if known.times > 1 => (Evidence::Measured(known.times), known.spread.max(NEAR)),
            Some(known) => (Evidence::Measured(known.times), APART),
            None if names().any(|name| lent.number(&name).is_some()) => (Evidence::Estimated, APART),
            None => (Evidence::Assumed, 0.0),
        }
    }

    /// How the time of a draft is known, and how many times as long it may be.
    fn speed(&self, drafter: &Drafter, profile: &Profile) -> (Evidence, f64) {
        if matches!(drafter, Drafter::None {} | Drafter::Lookup { .. }) {
            return (Evidence::Measured(0), 1.0);
        }
        let own = profile.drafter.as_ref().filter(|_| *drafter == (Drafter::Model {}));
        let token = own.map(|model| model.identity.key(Part::Token));
        let names = key("drafting", drafter, profile).into_iter().chain(token);
        match names.filter_map(|name| self.rates.how_measured(&name)).next() {
            Some(known) => (Evidence::Measured(known.times), 1.0 + known.spread.clamp(NEAR, 1.0)),
            None => (Evidence::Estimated, ESTIMATED_ROW),
        }
    }
}

impl Clip {
    fn of(spec: &ModelSpec, video: Option<&Video>) -> Result<Self, Failure> {
        let facts = Facts::read_files(&spec.target_files()?)?;
        let video = video.copied().unwrap_or_else(|| facts.example());
        let processor = facts.processor();
        let plan = processor.plan(video.size, video.frames, video.limits)?;
        let patches = processor.config().grid(plan.size, plan.frames);
        Ok(Self { visual: plan.tokens, patches, new_tokens: video.new_tokens })
    }

    fn question<'q>(&self, profile: &'q Profile, method: &'q Method) -> Question<'q> {
        Question {
            method,
            profile,
            prompt: self.visual + TEXT,
            visual: self.visual,
            patches: self.patches,
            max_new_tokens: self.new_tokens,
        }
    }
}

/// Load the target of a pair, or its drafter, measure its passes, and save their speeds in a file. Measuring
/// takes some seconds in addition to loading. Fails if the model does not exist, does not fit into memory, or
/// cannot be loaded.
pub fn measure_speeds(spec: &ModelSpec, is_target: bool, speeds: &Path) -> Result<(), Failure> {
    let kept = Kept { target: !is_target, drafter: is_target };
    if let Some(footprint) = Footprint::read(spec) {
        footprint.check_alone(kept)?;
    }
    // Events are discarded.
    let (events, _) = tokio::sync::mpsc::channel(EVENTS);
    let halves = Halves::load(spec, kept, &EventSender::new(events), &CancelTokens::default().create(0))?;
    let mut rates = Rates::default();
    rates.keep_in(speeds.to_owned());
    for model in halves.models().into_iter().flatten() {
        let further = passes::learn(model, &mut rates)?;
        if is_target {
            learn_further(&mut rates, model, further);
        }
    }
    rates.save();
    Ok(())
}

/// Estimate the unknown figures of a pair from another pair with the same drafter in another form.
fn lend(rates: &mut Rates, from: &Profile, to: &Profile) {
    let (Some(lender), Some(drafter)) = (&from.drafter, &to.drafter) else { return };
    // The time of a row is mostly the time to read the weights; the products of many rows do not depend on
    // that.
    let reading = drafter.row_bytes as f64 / lender.row_bytes.max(1) as f64;
    let pairs = |profile: &Profile| key("", &Drafter::Model {}, profile);
    if let (Some(ours), Some(theirs)) = (pairs(from), pairs(to)) {
        rates.lend(&ours, &theirs, reading);
    }
    for (part, times) in [(Part::Tower, 1.0), (Part::Prompt, 1.0), (Part::Token, reading)] {
        let [from, to] = [lender, drafter].map(|model| model.identity.key(part));
        if let Some((rate, _)) = rates.get(&from) {
            rates.probed(&to, rate.times(times));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timing::Rate;

    fn place(name: &str) -> std::path::PathBuf {
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/parity/fixtures")).join(name)
    }

    /// A pair, with the drafter as it is or with fewer ids.
    fn pair(ids: Option<usize>) -> ModelSpec {
        ModelSpec {
            target: place("qwen3_vl"),
            drafter: Some(place("qwen3_vl_small")),
            drafter_vocabulary: ids,
            ..ModelSpec::default()
        }
    }

    fn advisor() -> Advisor {
        Advisor::open(None).unwrap()
    }

    /// Speeds of the target: a row takes 100 ms.
    fn measured(profile: &Profile, rates: &mut Rates) {
        let row = specreel_model::mac_count::token(&profile.target.text, 0);
        let token = Rate::of(&row, 100.0, &Rate::unknown(Part::Token)).unwrap();
        for (part, rate) in
            [(Part::Token, token), (Part::Prompt, token.times(1e-3)), (Part::Tower, token.times(1e-9))]
        {
            rates.learn(&profile.target.identity.key(part), rate);
        }
    }

    fn of(advice: &Advice, drafter: &Drafter) -> Expectation {
        advice.drafters.iter().find(|expected| expected.drafter == *drafter).unwrap().clone()
    }

    #[test]
    fn nothing_is_expected_of_a_target_that_never_ran() {
        assert!(advisor().advise(&pair(None), &[], None).unwrap().is_none());
    }

    #[test]
    fn what_is_known_narrows_the_interval() {
        let (spec, model) = (pair(None), Drafter::Model {});
        let mut advisor = advisor();
        let profile = advisor.profile(&spec).unwrap();
        measured(&profile, &mut advisor.rates);
        let advice = advisor.advise(&spec, &[], None).unwrap().unwrap();
        assert!(advice.visual_tokens > 0 && advice.prompt_tokens > advice.visual_tokens);
        assert!(advice.drafters.is_sorted_by(|a, b| a.speedup[1] >= b.speedup[1]));
        assert_eq!(of(&advice, &Drafter::None {}).speedup, [1.0; 3]);
        let assumed = of(&advice, &model);
        assert_eq!((assumed.acceptance, assumed.speed), (Evidence::Assumed, Evidence::Estimated));
        let [low, middle, high] = assumed.speedup;
        assert!(low < middle && middle < high, "{assumed:?}");
        // Runs have shown that drafts hardly ever fail.
        for _ in 0..3 {
            for share in SHARES {
                advisor.rates.learn_number(&key(&passing(share), &model, &profile).unwrap(), 0.95);
            }
            advisor
                .rates
                .learn(&key("drafting", &model, &profile).unwrap(), Rate { products: 1e-3, attention: 1e-3 });
        }
        let known = of(&advisor.advise(&spec, &[], None).unwrap().unwrap(), &model);
        assert_eq!((known.acceptance, known.speed), (Evidence::Measured(3), Evidence::Measured(3)));
        assert!((known.chance - 0.95).abs() < 1e-9 && known.speedup[1] > middle, "{known:?}");
        let width = |of: &Expectation| of.speedup[2] / of.speedup[0];
        assert!(width(&known) < width(&assumed), "{known:?} {assumed:?}");
    }

    #[test]
    fn another_form_of_a_drafter_is_estimated_by_the_bytes_that_it_reads() {
        let (own, other, model) = (pair(None), pair(Some(48)), Drafter::Model {});
        let mut advisor = advisor();
        let profile = advisor.profile(&own).unwrap();
        measured(&profile, &mut advisor.rates);
        advisor.rates.learn_number(&key(&passing(0.0), &model, &profile).unwrap(), 0.9);
        advisor
            .rates
            .learn(&key("drafting", &model, &profile).unwrap(), Rate { products: 1e6, attention: 1e6 });
        let alone = of(&advisor.advise(&other, &[], None).unwrap().unwrap(), &model);
        assert_eq!(alone.acceptance, Evidence::Assumed);
        let relatives = [own.clone(), other.clone()];
        let lent = of(&advisor.advise(&other, &relatives, None).unwrap().unwrap(), &model);
        assert_eq!((lent.acceptance, lent.speed), (Evidence::Estimated, Evidence::Estimated));
        let first = of(&advisor.advise(&own, &relatives, None).unwrap().unwrap(), &model);
        assert_eq!(first.acceptance, Evidence::Measured(1));
        let bytes = |spec: &ModelSpec| advisor.draft_bytes(spec).unwrap() as f64;
        assert_eq!(lent.context, first.context);
        let ratio = lent.draft_ms / first.draft_ms;
        assert!((ratio - bytes(&other) / bytes(&own)).abs() < 1e-6 && ratio < 1.0, "{ratio}");
    }

    #[test]
    fn a_damaged_file_of_speeds_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("speeds.json");
        assert!(Advisor::open(Some(&file)).is_ok(), "there is none yet");
        std::fs::write(&file, "{").unwrap();
        let failure = Advisor::open(Some(&file)).err().unwrap();
        assert!(failure.error.contains("speeds.json") && failure.hint.unwrap().contains("remove the file"));
    }

    #[test]
    fn passes_of_a_model_are_measured_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        let (file, spec) = (dir.path().join("speeds.json"), pair(None));
        measure_speeds(&spec, true, &file).unwrap();
        measure_speeds(&spec, false, &file).unwrap();
        let advice = Advisor::open(Some(&file)).unwrap().advise(&spec, &[], None).unwrap().unwrap();
        let found = of(&advice, &Drafter::Model {});
        assert_eq!((found.acceptance, found.speed), (Evidence::Assumed, Evidence::Measured(1)));
        assert!(advice.token_ms > 0.0 && found.draft_ms > 0.0);
        let absent = ModelSpec { target: place("nowhere"), ..spec };
        assert!(measure_speeds(&absent, true, &file).is_err());
    }
}
