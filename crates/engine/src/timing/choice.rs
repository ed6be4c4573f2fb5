//! Automatic drafters and contexts: from known speeds and earlier acceptance to what drafts in a run, and what it sees.
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
use specreel_record::Expected;
use specreel_speculate::{
    Acceptance, Drafter, Method, Schedule, Shape, VisualContext,
    auto::{DraftCost, SHARES, chance_at, further_row, usual_chance},
};

/// Length of a text of which only a higher limit is known: captions rarely fill it.
const USUAL_TOKENS: usize = 200;

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

/// A drafter and what it sees, with the expected time until the text is written, in milliseconds.
#[derive(Clone, Debug)]
struct Candidate {
    drafter: Drafter,
    context: VisualContext,
    ms: f64,
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
    /// The method with all choices made, and what each drafter was expected to take, the fastest first; `target_ms` is the time of a
    /// target row, 0 if it is not known. `None` where the method leaves none open. Where speeds are not known, the first of the
    /// drafters drafts, and sees all.
    pub fn answer(&self, rates: &Rates, target_ms: f64) -> Option<(Method, Vec<Expected>)> {
        let open =
            self.method.drafter == (Drafter::Auto {}) || self.method.context == (VisualContext::Auto {});
        if !open {
            return None;
        }
        let drafters = self.drafters();
        let Some(speeds) = self.speeds(rates, target_ms) else {
            let first = drafters.into_iter().next()?;
            let context = self.contexts(&first).pop()?.1;
            return Some((Method { drafter: first, context, ..self.method.clone() }, Vec::new()));
        };
        let mut candidates: Vec<Candidate> =
            drafters.into_iter().filter_map(|drafter| self.best(drafter, rates, &speeds)).collect();
        candidates.sort_by(|a, b| a.ms.total_cmp(&b.ms));
        let expected = |of: &Candidate| Expected { drafter: of.words(), ms: of.ms };
        let expected = candidates.iter().map(expected).collect();
        let Candidate { drafter, context, .. } = candidates.into_iter().next()?;
        Some((Method { drafter, context, ..self.method.clone() }, expected))
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

    fn best(&self, drafter: Drafter, rates: &Rates, speeds: &Speeds) -> Option<Candidate> {
        let tokens = min(self.max_new_tokens, USUAL_TOKENS);
        let further = further_row(self.models.target.decoder());
        let chance = |share: f64| {
            Some(rates.get(&key(&format!("passing {share}"), &drafter, self.models)?)?.0.products)
        };
        let known: Vec<(f64, f64)> =
            SHARES.into_iter().filter_map(|share| Some((share, chance(share)?))).collect();
        let usual = usual_chance(&drafter);
        let timed = self.contexts(&drafter).into_iter().map(|(share, context)| {
            let chance = match drafter {
                Drafter::None {} => 0.0,
                Drafter::Model {} | Drafter::Target { .. } => chance_at(share, &known, usual),
                _ => chance(share).unwrap_or(usual),
            };
            let [front_ms, row_ms] = self.times(&drafter, share, rates, speeds);
            let ms = DraftCost { front_ms, row_ms, chance }.expected_ms(tokens, speeds.target_ms, further);
            Candidate { drafter: drafter.clone(), context, ms }
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

impl Candidate {
    fn words(&self) -> String {
        match self.drafter {
            Drafter::Model {} | Drafter::Target { .. } => {
                format!("{} that {}", self.drafter.describe(), self.context.describe())
            }
            _ => self.drafter.describe(),
        }
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

/// Drafts of chains that were judged one after the other until one failed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Judged {
    pub drafts: usize,
    pub passed: usize,
}

/// Fewest judged drafts that say something of a chance.
const ENOUGH: usize = 16;

impl Judged {
    /// Add a step of a chain, `judged` drafts of which `accepted` passed.
    pub fn add(&mut self, judged: usize, accepted: usize) {
        // Those after the first that failed did not count.
        self.drafts += min(accepted + 1, judged);
        self.passed += accepted;
    }

    /// Learn how often drafts of this method pass, and what one takes: `row_ms` after a prompt of so many slots.
    pub(crate) fn teach(
        &self,
        rates: &mut Rates,
        method: &Method,
        models: &Models,
        row_ms: f64,
        slots: usize,
    ) {
        let chain =
            matches!((&method.shape, &method.schedule), (Shape::Chain { .. }, Schedule::Sequential {}));
        let comparable = chain && matches!(method.acceptance, Acceptance::Exact {});
        let share = method.context.share().filter(|_| comparable && self.drafts >= ENOUGH);
        let Some(share) = share else { return };
        if let Some(key) = key(&format!("passing {share}"), &method.drafter, models) {
            let chance = (self.passed as f64 / self.drafts as f64).max(0.01);
            rates.learn(&key, Rate { products: chance, attention: chance });
        }
        let taken = decoder_of(&method.drafter, models).and_then(|config| {
            Rate::of(&mac_count::token(&config, slots), row_ms, &Rate::unknown(Part::Token))
        });
        if let (Some(key), Some(rate)) = (key("drafting", &method.drafter, models), taken) {
            rates.learn(&key, rate);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drafts_after_the_first_failed_one_are_not_counted() {
        let mut all = Judged::default();
        for (judged, accepted) in [(5, 5), (5, 2), (5, 0), (1, 0), (0, 0)] {
            all.add(judged, accepted);
        }
        assert_eq!((all.passed, all.drafts), (7, 5 + 3 + 1 + 1));
    }
}
