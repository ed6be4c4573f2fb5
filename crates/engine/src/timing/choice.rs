//! Automatic drafters and contexts: from known speeds and earlier acceptance to what drafts in a run, what it sees, and what may
//! take over.
//!
//! What earlier runs left in the cache does not count, so that the order of runs changes no choice.

use std::cmp::min;

use crate::{
    models::Models,
    timing::{
        pace::{Part, Rate},
        rates::{self, Rates},
    },
};
use specreel_model::{
    config::TextConfig,
    draft_head::Recipe,
    family::VideoLlm,
    mac_count::{self, MacCount},
    processor::Grid,
};
use specreel_record::{Expected, median};
use specreel_speculate::{
    Acceptance, Drafted, Drafter, Length, Method, Schedule, Shape, VisualContext,
    auto::{Contender, DraftCost, SHARES, USUAL_TOKENS, chance_at, further_row, tokens_left, usual_chance},
};

/// A run whose method leaves choices open.
#[derive(Clone, Copy)]
pub(crate) struct Question<'a> {
    pub method: &'a Method,
    pub models: &'a Models,
    /// Tokens of the prompt, and visual tokens among them.
    pub prompt: usize,
    pub visual: usize,
    pub patches: Grid,
    pub max_new_tokens: usize,
}

/// A contender, with the expected time until the text is written, in milliseconds.
#[derive(Clone, Debug)]
struct Candidate {
    contender: Contender,
    ms: f64,
}

/// What an automatic method stands for in a run.
pub(crate) struct Answer {
    /// The method with all choices made.
    pub method: Method,
    /// What each drafter was expected to take, the fastest first; empty where speeds are not known.
    pub expected: Vec<Expected>,
    /// What drafts, and what was expected of it; `None` where nothing drafts or speeds are not known.
    pub contender: Option<Contender>,
}

/// The speeds that a choice depends on.
struct Speeds {
    /// A row of the target, in milliseconds.
    target_ms: f64,
    token: Rate,
    prompt: Rate,
    /// The draft model's tower.
    tower: Rate,
}

impl Question<'_> {
    /// The choices for this run; `target_ms` is the time of a target row, 0 if it is not known. `None` where the method leaves none
    /// open. Where speeds are not known, the first of the drafters drafts, and sees all.
    pub fn answer(&self, rates: &Rates, target_ms: f64) -> Option<Answer> {
        let open =
            self.method.drafter == (Drafter::Auto {}) || self.method.context == (VisualContext::Auto {});
        if !open {
            return None;
        }
        let method = |drafter, context| Method { drafter, context, ..self.method.clone() };
        let drafters = self.drafters();
        let Some(speeds) = self.speeds(rates, target_ms) else {
            let first = drafters.into_iter().next()?;
            let context = self.contexts(&first).pop()?.1;
            return Some(Answer { method: method(first, context), expected: Vec::new(), contender: None });
        };
        let mut candidates: Vec<Candidate> =
            drafters.into_iter().filter_map(|drafter| self.best(drafter, rates, &speeds)).collect();
        candidates.sort_by(|a, b| a.ms.total_cmp(&b.ms));
        let expected = |of: &Candidate| Expected { drafter: of.contender.name(), ms: of.ms };
        let expected = candidates.iter().map(expected).collect();
        let Candidate { contender, .. } = candidates.into_iter().next()?;
        let (drafter, context) = (contender.drafter.clone(), contender.context.clone());
        let contender = Some(contender).filter(|contender| contender.drafter != (Drafter::None {}));
        Some(Answer { method: method(drafter, context), expected, contender })
    }

    /// What may take over from the chosen one within the run: what can read the prompt then, without signals of the target's
    /// prefill. `reads` says that of a draft head.
    pub fn reserves(
        &self,
        rates: &Rates,
        target_ms: f64,
        chosen: &Contender,
        reads: impl Fn(Recipe) -> bool,
    ) -> Vec<Contender> {
        let follows = matches!(self.method.shape, Shape::Chain { length: Length::AUTO, .. });
        let Some(speeds) = self.speeds(rates, target_ms).filter(|_| follows) else { return Vec::new() };
        let can = |contender: &Contender| match contender.drafter {
            Drafter::Model {} => {
                matches!(contender.context.share(), Some(share) if share == 0.0 || share == 1.0)
            }
            Drafter::Head { recipe } => reads(recipe),
            Drafter::Lookup { .. } => true,
            _ => false,
        };
        let is_other = |other: &Contender| {
            other.drafter != chosen.drafter || other.context.share() != chosen.context.share()
        };
        let all = self.drafters().into_iter().flat_map(|drafter| self.contenders(&drafter, rates, &speeds));
        all.filter(|contender| can(contender) && is_other(contender)).collect()
    }

    /// What may draft, in the order of what is usually faster; none of them last.
    fn drafters(&self) -> Vec<Drafter> {
        if self.method.drafter != (Drafter::Auto {}) {
            return vec![self.method.drafter.clone()];
        }
        let parts = self.models.parts();
        let heads = Recipe::ALL.into_iter().filter(|recipe| match recipe {
            Recipe::Mtp => parts.mtp,
            recipe => parts.heads.iter().any(|head| head == recipe.name()),
        });
        let lookup = Method::preset("lookup").ok().map(|lookup| lookup.drafter);
        let model = parts.drafter.then_some(Drafter::Model {});
        let heads = heads.map(|recipe| Drafter::Head { recipe });
        model.into_iter().chain(heads).chain(lookup).chain([Drafter::None {}]).collect()
    }

    /// What a drafter may see, with the share of the visual tokens.
    fn contexts(&self, drafter: &Drafter) -> Vec<(f64, VisualContext)> {
        match drafter {
            Drafter::Model {} | Drafter::Target { .. } => {
                SHARES.map(|share| (share, VisualContext::of_share(share))).into()
            }
            // What it was trained with.
            Drafter::Head { recipe: Recipe::Sparrow | Recipe::Hivis } => {
                vec![(0.0, VisualContext::of_share(0.0))]
            }
            Drafter::Head { .. } => vec![(1.0, VisualContext::Full {})],
            _ => vec![(0.0, VisualContext::of_share(0.0))],
        }
    }

    /// A drafter with all that it may see.
    fn contenders(&self, drafter: &Drafter, rates: &Rates, speeds: &Speeds) -> Vec<Contender> {
        let chance = |share: f64| rates.number(&key(&format!("passing {share}"), drafter, self.models)?);
        let known: Vec<(f64, f64)> =
            SHARES.into_iter().filter_map(|share| Some((share, chance(share)?))).collect();
        let usual = usual_chance(drafter);
        let later = |share: f64| {
            let known = |rank| rates.number(&key(&later_choice(rank, share), drafter, self.models)?);
            std::array::from_fn(|at| known(at + 1).unwrap_or(0.0))
        };
        let further = further(rates, self.models);
        let all = self.contexts(drafter).into_iter().map(|(share, context)| {
            let chance = match drafter {
                Drafter::None {} => 0.0,
                Drafter::Model {} | Drafter::Target { .. } => chance_at(share, &known, usual),
                _ => chance(share).unwrap_or(usual),
            };
            let [front_ms, row_ms] = self.times(drafter, share, rates, speeds);
            let cost = DraftCost { front_ms, row_ms, chance, later: later(share) };
            let text_tokens = text_tokens(rates, self.models);
            Contender { drafter: drafter.clone(), context, cost, text_tokens, further }
        });
        all.collect()
    }

    fn best(&self, drafter: Drafter, rates: &Rates, speeds: &Speeds) -> Option<Candidate> {
        let tokens = tokens_left(text_tokens(rates, self.models), self.max_new_tokens, 0);
        let timed = self.contenders(&drafter, rates, speeds).into_iter().map(|contender| {
            let ms = contender.cost.expected_ms(tokens, speeds.target_ms, contender.further);
            Candidate { contender, ms }
        });
        timed.min_by(|a, b| a.ms.total_cmp(&b.ms))
    }

    /// What the drafter needs before the first token, and for each draft, in milliseconds.
    fn times(&self, drafter: &Drafter, share: f64, rates: &Rates, speeds: &Speeds) -> [f64; 2] {
        let seen = (self.visual as f64 * share) as usize;
        let slots = self.prompt - min(self.visual, self.prompt) + seen;
        let Some(config) = decoder_of(drafter, self.models) else { return [0.0; 2] };
        let tower = match (drafter, &self.models.drafter) {
            (Drafter::Model {}, Some(drafter)) if seen > 0 => {
                drafter.tower_config().mac_count(self.patches).total()
            }
            // The target's own embeddings are there.
            _ => MacCount::default(),
        };
        let front = speeds.tower.ms(&tower) + speeds.prompt.ms(&mac_count::prompt(&config, 0, slots));
        let own = key("drafting", drafter, self.models).and_then(|key| Some(rates.get(&key)?.0));
        [front, own.unwrap_or(speeds.token).ms(&mac_count::token(&config, slots))]
    }

    /// `None` if one is not known. A multiply-add of a drafter that has not run yet is as fast as the target's.
    fn speeds(&self, rates: &Rates, target_ms: f64) -> Option<Speeds> {
        let target = &self.models.target;
        let rate = |part: Part, model: &VideoLlm| rates.get(&rates::key(part, model)).map(|known| known.0);
        let either = |part: Part| {
            let drafter = self.models.drafter.as_ref().and_then(|drafter| rate(part, drafter));
            drafter.or_else(|| rate(part, target))
        };
        let row = mac_count::token(target.decoder().config(), self.prompt);
        let measured = || Rate::of(&row, target_ms, &Rate::unknown(Part::Token));
        let token = either(Part::Token).or_else(measured)?;
        let own = rate(Part::Token, target).unwrap_or(token);
        let target_ms = if target_ms > 0.0 { target_ms } else { own.ms(&row) };
        Some(Speeds { target_ms, token, prompt: either(Part::Prompt)?, tower: either(Part::Tower)? })
    }
}

/// The sizes of a drafter; `None` if it is no model. A draft head is taken for a layer of the target.
fn decoder_of(drafter: &Drafter, models: &Models) -> Option<TextConfig> {
    let target = models.target.decoder().config();
    match (drafter, &models.drafter) {
        (Drafter::None {} | Drafter::Lookup { .. }, _) => None,
        (Drafter::Model {}, Some(drafter)) => Some(drafter.decoder().config().clone()),
        (Drafter::Head { .. }, _) => Some(TextConfig { layers: 1, ..target.clone() }),
        _ => Some(target.clone()),
    }
}

/// The name of something that is known of a drafter of this target. `None` without drafts.
fn key(what: &str, drafter: &Drafter, models: &Models) -> Option<String> {
    let of = |model: &VideoLlm| rates::key(Part::Token, model);
    let drafter = match (drafter, &models.drafter) {
        (Drafter::Model {}, Some(drafter)) => of(drafter),
        (Drafter::Target { dtype }, _) => format!("itself in {dtype:?}"),
        (Drafter::Head { recipe }, _) => format!("{} head", recipe.name()),
        (Drafter::Lookup { .. }, _) => "lookup".into(),
        _ => return None,
    };
    Some(format!("{what}, {}, {drafter}", of(&models.target)))
}

/// How long the target's texts usually are, in tokens, by the latest ones.
fn text_tokens(rates: &Rates, models: &Models) -> usize {
    rates.number(&length_key(models)).map_or(USUAL_TOKENS, |tokens| tokens.round() as usize)
}

/// Learn from a finished text of so many tokens how long texts are.
pub(crate) fn learn_length(rates: &mut Rates, models: &Models, tokens: u64) {
    rates.learn_number(&length_key(models), tokens.max(1) as f64);
}

/// What a further row of the target's pass takes relative to one alone, by the latest runs, or by what it reads.
fn further(rates: &Rates, models: &Models) -> f64 {
    rates.number(&further_key(models)).unwrap_or_else(|| further_row(models.target.decoder()))
}

/// Learn what a further row of the target's pass takes relative to one alone.
pub(crate) fn learn_further(rates: &mut Rates, models: &Models, further: f64) {
    rates.learn_number(&further_key(models), further.max(0.01));
}

fn further_key(models: &Models) -> String {
    format!("further row, {}", rates::key(Part::Token, &models.target))
}

fn length_key(models: &Models) -> String {
    format!("tokens of a text, {}", rates::key(Part::Token, &models.target))
}

/// The name of how often a drafter's choice of this rank passes where those before it failed.
fn later_choice(rank: usize, share: f64) -> String {
    format!("choice {} passing {share}", rank + 1)
}

/// Fewest judged drafts that say something of a chance.
const ENOUGH: usize = 16;

/// Learn how often drafts of this method pass, and what one takes, from what its drafter did after a prompt of so many tokens,
/// `visual` of them visual.
pub(crate) fn learn_drafting(
    rates: &mut Rates,
    method: &Method,
    models: &Models,
    drafted: &Drafted,
    [prompt, visual]: [usize; 2],
) {
    let chain = matches!((&method.shape, &method.schedule), (Shape::Chain { .. }, Schedule::Sequential {}));
    let comparable = chain && matches!(method.acceptance, Acceptance::Exact {});
    let share = method.context.share().filter(|_| comparable && drafted.judged >= ENOUGH);
    let Some(share) = share else { return };
    if let Some(key) = key(&format!("passing {share}"), &method.drafter, models) {
        let chance = (drafted.passed as f64 / drafted.judged as f64).max(0.01);
        rates.learn_number(&key, chance);
    }
    let slots = prompt - min(visual, prompt) + (visual as f64 * share) as usize;
    for (at, [known, found]) in drafted.later.into_iter().enumerate().filter(|(_, of)| of[0] >= ENOUGH) {
        if let Some(key) = key(&later_choice(at + 1, share), &method.drafter, models) {
            let chance = (found as f64 / known as f64).max(0.001);
            rates.learn_number(&key, chance);
        }
    }
    let row_ms = median(drafted.row_ms.iter().copied()).unwrap_or_default();
    let taken = decoder_of(&method.drafter, models)
        .and_then(|config| Rate::of(&mac_count::token(&config, slots), row_ms, &Rate::unknown(Part::Token)));
    if let (Some(key), Some(rate)) = (key("drafting", &method.drafter, models), taken) {
        rates.learn(&key, rate);
    }
}
