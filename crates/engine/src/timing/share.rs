//! `context = auto`: from known speeds and earlier acceptance to the share of the visual tokens that a drafter reads.

use std::cmp::min;

use crate::{
    models::Models,
    timing::{
        pace::{Part, Rate},
        rates::{self, Rates},
    },
};
use specreel_model::{
    family::VideoLlm,
    mac_count::{self, MacCount},
    processor::Grid,
};
use specreel_speculate::{
    Acceptance, Drafter, Method, Shape, VisualContext,
    auto::{SHARES, ShareCost, best_share},
};

/// Length of a text of which only a higher limit is known: captions rarely fill it.
const USUAL_TOKENS: usize = 200;

/// A run whose drafter may read a part of the video.
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

impl Question<'_> {
    /// The context that `auto` stands for in this run; `row_ms` is the time of one target row, 0 if it is not known. `None` where
    /// the method names another context. Without known speeds it is all visual tokens. What earlier runs left in the cache does
    /// not count, so that the order of runs does not change a context.
    pub fn context(&self, rates: &Rates, row_ms: f64) -> Option<VisualContext> {
        (self.method.context == VisualContext::Auto {}).then(|| {
            let share = self.share(rates, row_ms);
            VisualContext::of_share(share.unwrap_or(1.0))
        })
    }

    fn share(&self, rates: &Rates, row_ms: f64) -> Option<f64> {
        let target = &self.models.target;
        let drafter = match (&self.method.drafter, &self.models.drafter) {
            (Drafter::Model {}, Some(drafter)) => drafter,
            _ => target,
        };
        // A multiply-add of a drafter that has not run yet is as fast as the target's.
        let rate = |part: Part| {
            let of = |model: &VideoLlm| rates.get(&rates::key(part, model)).map(|known| known.0);
            of(drafter).or_else(|| of(target))
        };
        let token = |model: &VideoLlm, slots: usize| mac_count::token(model.decoder().config(), slots);
        let token_rate = rate(Part::Token)
            .or_else(|| Rate::of(&token(target, self.prompt), row_ms, &Rate::unknown(Part::Token)))?;
        let row_ms = if row_ms > 0.0 { row_ms } else { token_rate.ms(&token(target, self.prompt)) };
        // The target's own embeddings are there.
        let tower_ms = match std::ptr::eq(drafter, target) {
            true => 0.0,
            false => rate(Part::Tower)?.ms(&drafter.tower_config().mac_count(self.patches).total()),
        };
        let prompt_rate = rate(Part::Prompt)?;
        let cost = |share: f64| {
            let seen = (self.visual as f64 * share) as usize;
            let slots = self.prompt - min(self.visual, self.prompt) + seen;
            let read: MacCount = mac_count::prompt(drafter.decoder().config(), 0, slots);
            ShareCost {
                share,
                front_ms: prompt_rate.ms(&read) + if seen > 0 { tower_ms } else { 0.0 },
                row_ms: token_rate.ms(&token(drafter, slots)),
            }
        };
        let costs = SHARES.map(cost);
        let known: Vec<(f64, f64)> = SHARES
            .into_iter()
            .filter_map(|share| Some((share, rates.get(&key(self.method, self.models, share)?)?.0.products)))
            .collect();
        best_share(&costs, min(self.max_new_tokens, USUAL_TOKENS), row_ms, &known)
    }
}

/// The name of the chance that a draft passes, for the target and drafter of a method and a drafter that sees this share. `None` for drafters that do not
/// read the video themselves.
fn key(method: &Method, models: &Models, share: f64) -> Option<String> {
    let of = |model: &VideoLlm| rates::key(Part::Token, model);
    let drafter = match (&method.drafter, &models.drafter) {
        (Drafter::Model {}, Some(drafter)) => of(drafter),
        (Drafter::Target { dtype }, _) => format!("itself in {dtype:?}"),
        _ => return None,
    };
    Some(format!("passing {share}, {}, {drafter}", of(&models.target)))
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

    /// Learn how often drafts of this method pass.
    pub(crate) fn teach(&self, rates: &mut Rates, method: &Method, models: &Models) {
        let comparable =
            matches!(method.shape, Shape::Chain { .. }) && matches!(method.acceptance, Acceptance::Exact {});
        let share = method.context.share().filter(|_| comparable && self.drafts >= ENOUGH);
        let Some(key) = share.and_then(|share| key(method, models, share)) else { return };
        let chance = (self.passed as f64 / self.drafts as f64).max(0.01);
        rates.learn(&key, Rate { products: chance, attention: chance });
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
