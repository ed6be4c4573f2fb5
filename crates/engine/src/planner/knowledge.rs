//! What finished runs teach: how often drafts pass and what one takes, how long texts are, and how fast they are written.

use std::{
    cmp::min,
    hash::{DefaultHasher, Hash, Hasher},
    sync::PoisonError,
};

use super::{
    Planner, RunPlan,
    profile::{ModelProfile, Profile},
};
use crate::timing::{Part, Rate, Rates, rates::Identity};
use specreel_model::{
    config::TextConfig,
    draft_head::Recipe,
    family::VideoLlm,
    mac_count::{self, MacCount},
};
use specreel_record::{Stats, StopReason, median};
use specreel_speculate::{
    Acceptance, Drafted, Drafter, Finished, Method, Schedule, Shape,
    auto::{CLASSES, Calibration, Contender, USUAL_TOKENS},
};

/// Share of its steps in which prompt lookup has a draft, as long as that is not known: rather too high, so that it is tried.
const USUALLY_OFFERED: f64 = 0.5;
/// Fewest judged drafts that say something of a chance.
const ENOUGH: usize = 16;

impl Planner<'_> {
    /// Learn from a run that is over: its generation after a prompt of so many tokens, and why it ended.
    pub fn learn(
        &self,
        plan: &RunPlan,
        finished: &Finished,
        stats: &Stats,
        prompt: usize,
        reason: StopReason,
    ) {
        // A pruned target is another one.
        let Some(rates) = self.rates.filter(|_| plan.pruner.is_none()) else { return };
        let profile = Profile::of(self.models);
        let mut rates = rates.lock().unwrap_or_else(PoisonError::into_inner);
        for (at, drafted) in finished.drafters.iter().enumerate() {
            let method = match plan.contenders.get(at) {
                Some(Contender { drafter, context, .. }) => {
                    &Method { drafter: drafter.clone(), context: context.clone(), ..plan.method.clone() }
                }
                None => &plan.method,
            };
            learn_drafting(&mut rates, method, &profile, drafted, [prompt, stats.visual_tokens]);
        }
        if let Some(further) = finished.further.filter(|_| !rates.is_shared()) {
            rates.learn_number(&further_key(&profile.target.identity), further.max(0.01));
        }
        // A text that was cut off would have been longer.
        let usual = text_tokens(&rates, &profile) as u64;
        if reason == StopReason::Eos || reason == StopReason::Length && stats.emitted > usual {
            rates.learn_number(&length_key(&profile), stats.emitted.max(1) as f64);
        }
        if !rates.is_shared() {
            learn_writing(&mut rates, &plan.method, &profile, stats, prompt);
        }
    }
}

/// Learn what a further row of a target's pass takes relative to one alone.
pub(super) fn learn_further(rates: &mut Rates, target: &VideoLlm, further: f64) {
    rates.learn_number(&further_key(&Identity::of(target)), further.max(0.01));
}

/// The sizes of a drafter; `None` if it is no model. A draft head is taken for a layer of the target.
pub(super) fn decoder_of(drafter: &Drafter, profile: &Profile) -> Option<TextConfig> {
    let target = &profile.target.text;
    match (drafter, &profile.drafter) {
        (Drafter::None {} | Drafter::Lookup { .. }, _) => None,
        (Drafter::Model {}, Some(drafter)) => Some(drafter.text.clone()),
        (Drafter::Head { .. }, _) => Some(TextConfig { layers: 1, ..target.clone() }),
        _ => Some(target.clone()),
    }
}

/// What a draft after so many slots takes; `None` if nothing is computed for it.
pub(super) fn draft_work(drafter: &Drafter, profile: &Profile, slots: usize) -> Option<MacCount> {
    match (drafter, &profile.assistant) {
        (Drafter::Head { recipe: Recipe::Assistant }, Some(own)) => {
            Some(own.mac_count(slots, profile.target.text.hidden))
        }
        _ => decoder_of(drafter, profile).map(|config| mac_count::token(&config, slots)),
    }
}

/// The name of something that is known of a drafter of this target. `None` without drafts.
pub(super) fn key(what: &str, drafter: &Drafter, profile: &Profile) -> Option<String> {
    let of = |model: &ModelProfile| model.identity.key(Part::Token);
    let drafter = match (drafter, &profile.drafter) {
        (Drafter::Model {}, Some(drafter)) => of(drafter),
        (Drafter::Target { dtype }, _) => format!("itself in {dtype:?}"),
        (Drafter::Head { recipe }, _) => format!("{} head", recipe.name()),
        (Drafter::Lookup { ngram, min_ngram, occurrence }, _) => {
            format!("lookup of {min_ngram} to {ngram}, {occurrence:?}")
        }
        _ => return None,
    };
    Some(format!("{what}, {}, {drafter}", of(&profile.target)))
}

/// How long the target's texts usually are, in tokens, by the latest ones.
pub(super) fn text_tokens(rates: &Rates, profile: &Profile) -> usize {
    rates.number(&length_key(profile)).map_or(USUAL_TOKENS, |tokens| tokens.round() as usize)
}

/// What a further row of the target's pass takes relative to one alone, by the latest runs, or by what it reads.
pub(super) fn further(rates: &Rates, profile: &Profile) -> f64 {
    rates.number(&further_key(&profile.target.identity)).unwrap_or(profile.target.further)
}

fn further_key(target: &Identity) -> String {
    format!("further row, {}", target.key(Part::Token))
}

fn length_key(profile: &Profile) -> String {
    format!("tokens of a text, {}", profile.target.identity.key(Part::Token))
}

/// The name of how often drafts of a drafter pass that sees this share of the visual tokens.
pub(super) fn passing(share: f64) -> String {
    format!("passing {share}")
}

/// The name of how often drafts of such a drafter fail relative to how unsure the target is.
pub(super) fn disagreeing(share: f64) -> String {
    format!("disagreeing {share}")
}

/// How often drafts of a drafter that sees this share of the visual tokens pass, by what it gives them; `None` if that is not known.
pub(super) fn calibration(
    rates: &Rates,
    drafter: &Drafter,
    share: f64,
    profile: &Profile,
) -> Option<Calibration> {
    let table = rates.list(&key(&calibrated(share), drafter, profile)?)?;
    let (chances, shares) = table.split_first_chunk::<CLASSES>()?;
    Calibration::of(*chances, *shares.first_chunk()?)
}

fn calibrated(share: f64) -> String {
    format!("calibration {share}")
}

/// In what share of its steps a drafter has a draft. Prompt lookup is taken to have one in half of them until that is known.
pub(super) fn offers(rates: &Rates, drafter: &Drafter, profile: &Profile) -> f64 {
    match drafter {
        Drafter::None {} => 0.0,
        Drafter::Lookup { .. } => {
            let known = key("offering", drafter, profile).and_then(|key| rates.number(&key));
            known.unwrap_or(USUALLY_OFFERED).clamp(0.0, 1.0)
        }
        _ => 1.0,
    }
}

/// Learn how often drafts of this method pass, and what one takes, from what its drafter did after a prompt of so many tokens,
/// `visual` of them visual.
fn learn_drafting(
    rates: &mut Rates,
    method: &Method,
    profile: &Profile,
    drafted: &Drafted,
    [prompt, visual]: [usize; 2],
) {
    let chain = matches!((&method.shape, &method.schedule), (Shape::Chain { .. }, Schedule::Sequential {}));
    let comparable = chain && matches!(method.acceptance, Acceptance::Exact {});
    let Some(share) = method.context.share().filter(|_| comparable) else { return };
    if drafted.asked >= ENOUGH
        && let Some(key) = key("offering", &method.drafter, profile)
    {
        rates.learn_number(&key, drafted.offered as f64 / drafted.asked as f64);
    }
    if drafted.judged < ENOUGH {
        return;
    }
    learn_calibration(rates, method, share, profile, drafted);
    if let Some(key) = key(&passing(share), &method.drafter, profile) {
        let chance = (drafted.passed as f64 / drafted.judged as f64).max(0.01);
        rates.learn_number(&key, chance);
    }
    if let Some(key) = key(&disagreeing(share), &method.drafter, profile)
        && method.drafter.reads()
    {
        let failed = (drafted.judged - drafted.passed) as f64;
        rates.learn_number(&key, (failed + 1.0) / (drafted.unsure + 1.0));
    }
    let slots = prompt - min(visual, prompt) + (visual as f64 * share) as usize;
    let row_ms = median(drafted.row_ms.iter().copied()).unwrap_or_default();
    let taken = draft_work(&method.drafter, profile, slots)
        .and_then(|work| Rate::of(&work, row_ms, &Rate::unknown(Part::Token)));
    if let (Some(key), Some(rate)) = (key("drafting", &method.drafter, profile), taken) {
        rates.learn(&key, rate);
    }
}

/// Learn how often drafts of each class pass, and how many are of it. What was known of a class counts for [`ENOUGH`] drafts.
fn learn_calibration(rates: &mut Rates, method: &Method, share: f64, profile: &Profile, drafted: &Drafted) {
    let seen: usize = drafted.by_confidence.iter().map(|class| class[0]).sum();
    let Some(key) = key(&calibrated(share), &method.drafter, profile).filter(|_| seen >= ENOUGH) else {
        return;
    };
    let before = calibration(rates, &method.drafter, share, profile);
    let chance = (drafted.passed as f64 / drafted.judged as f64).clamp(0.01, 0.99);
    let before = before.unwrap_or_else(|| Calibration::usual(chance));
    let weight = ENOUGH as f64;
    let mut table = Vec::with_capacity(2 * CLASSES);
    for ([_, judged, passed], known) in drafted.by_confidence.iter().zip(before.chances) {
        table.push((*passed as f64 + weight * known) / (*judged as f64 + weight));
    }
    for ([of_class, ..], known) in drafted.by_confidence.iter().zip(before.shares) {
        table.push((*of_class as f64 + weight * known) / (seen as f64 + weight));
    }
    rates.set_list(&key, table);
}

/// The inputs of the speed of writing with this method, relative to the target alone.
pub(super) fn writing_key(method: &Method, profile: &Profile) -> String {
    let key = |model: &ModelProfile| model.identity.key(Part::Token);
    let drafter = profile.drafter.as_ref().map(key).unwrap_or_default();
    let mut hasher = DefaultHasher::new();
    serde_json::to_string(method).unwrap_or_default().hash(&mut hasher);
    let (name, values, target) = (&method.name, hasher.finish(), profile.target.identity.key(Part::Token));
    format!("writing {name} {values:016x}, {target}, {drafter}")
}

/// Learn the speed of writing from a finished run over a prompt of so many tokens.
fn learn_writing(rates: &mut Rates, method: &Method, profile: &Profile, stats: &Stats, prompt: usize) {
    let (target, t1_ms) = (&profile.target, stats.timings.t1_ms);
    let slots = prompt + stats.emitted as usize / 2;
    let token = mac_count::token(&target.text, slots);
    let key = target.identity.key(Part::Token);
    let like = rates.get(&key).map_or(Rate::unknown(Part::Token), |known| known.0);
    if let Some(rate) = Rate::of(&token, t1_ms, &like) {
        rates.learn(&key, rate);
    }
    let share = stats.timings.generate_ms() / stats.emitted as f64 / t1_ms;
    if share > 0.0 && stats.emitted >= 8 {
        rates.learn_number(&writing_key(method, profile), share);
    }
    rates.save();
}
