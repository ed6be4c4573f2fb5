//! What a drafter is expected to take, and how often its drafts pass. A draft model that sees a smaller share of the visual tokens
//! has read them sooner and drafts faster; with a larger share more of its drafts pass.

use std::cmp::{max, min};

use super::{Calibration, Stopping};
use crate::{Drafter, VisualContext, confidence::ChainTimes, fit::RowTimes};

/// Length of a text of which only a higher limit is known: captions rarely fill it.
pub const USUAL_TOKENS: usize = 200;

/// The shares of the visual tokens that are considered.
pub const SHARES: [f64; 6] = [0.0, 0.05, 0.1, 0.25, 0.5, 1.0];

/// How often drafts of a drafter that sees no visual token fail, relative to one that sees all: 3.5 times on the embedded pair.
const BLIND: f64 = 2.5;
/// The same with a tenth of them: 1.7 times on the embedded pair, 1.0 to 1.3 times in SpecVLM's Table 1.
const TENTH: f64 = 1.3;

/// A drafter, what it sees, and what is expected of it.
#[derive(Clone, Debug)]
pub struct Contender {
    pub drafter: Drafter,
    pub context: VisualContext,
    pub cost: DraftCost,
    /// How long the text is expected to get ([`USUAL_TOKENS`]).
    pub text_tokens: usize,
    /// Time of a further row of the target's pass relative to one alone: as earlier runs have shown, or
    /// [`further_row`](super::further_row).
    pub further: f64,
}

impl Contender {
    /// The drafter and what it sees, in words.
    pub fn name(&self) -> String {
        match self.drafter {
            Drafter::Model {} | Drafter::Target { .. } => {
                format!("{} that {}", self.drafter.describe(), self.context.describe())
            }
            Drafter::Lookup { .. } => "prompt lookup".into(),
            _ => self.drafter.describe(),
        }
    }
}

/// What drafting takes, in milliseconds, and what it gives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DraftCost {
    /// Before the first draft: the drafter's tower and prompt.
    pub front_ms: f64,
    /// A draft of a chain.
    pub row_ms: f64,
    /// The chance that a draft passes once those before it have.
    pub chance: f64,
    /// The same by what the drafter gives a draft; [`Calibration::usual`] if that is not known.
    pub calibration: Calibration,
    /// Share of the steps in which it has a draft: 1 for all but prompt lookup.
    pub offers: f64,
    /// How often drafts fail relative to how unsure the target is of its own tokens, 1 less the probability that it gives them; `None` if
    /// they have nothing to do with each other.
    pub disagreement: Option<f64>,
}

impl DraftCost {
    /// Of a drafter of whose drafts this share passes, and no more is known.
    pub fn usual([front_ms, row_ms]: [f64; 2], chance: f64) -> Self {
        let calibration = Calibration::usual(chance);
        Self { front_ms, row_ms, chance, calibration, offers: 1.0, disagreement: None }
    }

    /// What it takes once the prompt has been read.
    pub fn after_front(self) -> Self {
        Self { front_ms: 0.0, ..self }
    }

    /// The cost if drafts fail `failing` times as often, and drafting one takes `row` times as long.
    pub fn with(self, failing: f64, row: f64) -> Self {
        let chance = (1.0 - (1.0 - self.chance) * failing).clamp(0.0, 0.995);
        let calibration = self.calibration.failing(failing);
        let disagreement = self.disagreement.map(|ratio| ratio * failing);
        Self { chance, calibration, disagreement, row_ms: self.row_ms * row, ..self }
    }

    /// The time until a text of `tokens` is written with chains of the best length, where prompt lookup, if there is one,
    /// drafts in its place; `target_ms` is the time of a target row, and `further` what another row of its pass costs, relative to it
    /// ([`Contender::further`]).
    pub fn expected_ms(&self, lookup: Option<&Self>, tokens: usize, target_ms: f64, further: f64) -> f64 {
        let more = further * target_ms;
        let chain = self.stopping(target_ms, more);
        let rate = chain.rate.max(1.0 / target_ms.max(1e-9));
        let rate = lookup.map_or(rate, |lookup| lookup.stopping(target_ms, more).beside.with(rate));
        self.front_ms + tokens as f64 / rate
    }

    /// Where its chains end, if a row of the target takes so many milliseconds, and each further one `more`.
    fn stopping(&self, target_ms: f64, more: f64) -> Stopping {
        let target = RowTimes { alone: target_ms, first: target_ms, more };
        let others = self.disagreement.is_some();
        let times = ChainTimes { row: self.row_ms, once: 0.0, target, offers: self.offers, others };
        Stopping::new(&self.calibration, &times, None)
    }
}

/// How many more tokens a text of at most `limit` is expected to get after `written` ones: up to the `usual` length, or a quarter of
/// what is written.
pub fn tokens_left(usual: usize, limit: usize, written: usize) -> usize {
    min(limit, max(usual, written + written / 4)).saturating_sub(written)
}

/// The chance that a draft passes, of a drafter of which nothing is known; of one that reads the video, with all visual tokens.
/// Rather too high: a drafter that is never tried cannot show what it does.
pub fn usual_chance(drafter: &Drafter) -> f64 {
    match drafter {
        Drafter::Lookup { .. } => 0.3,
        _ => 0.75,
    }
}

/// The chance that a draft passes of a drafter that sees this share of the visual tokens: as measured with it, or from what was
/// measured with the share in which drafts fail most alike, or from the `usual` chance with all of them.
pub fn chance_at(share: f64, known: &[(f64, f64)], usual: f64) -> f64 {
    let known: Vec<(f64, f64)> = known.iter().map(|(share, chance)| (*share, 1.0 - chance)).collect();
    (1.0 - failing_at(share, &known, 1.0 - usual)).clamp(0.0, 0.995)
}

/// The same of a measure of how often drafts fail ([`DraftCost::disagreement`]).
pub fn failing_at(share: f64, known: &[(f64, f64)], usual: f64) -> f64 {
    let factor = failures(share);
    let apart = |other: f64| (failures(other) / factor).ln().abs();
    let nearest = known.iter().min_by(|a, b| apart(a.0).total_cmp(&apart(b.0)));
    let (other, measured) = nearest.copied().unwrap_or((1.0, usual));
    measured * factor / failures(other)
}

/// How often drafts fail relative to a drafter that sees everything: linear in the logarithm of the share, up
/// to [`BLIND`].
fn failures(share: f64) -> f64 {
    match share > 0.0 {
        true => (1.0 + (TENTH - 1.0) * -share.log10()).min(BLIND),
        false => BLIND,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The best share for a drafter whose tower takes `tower_ms`, prompt `read_ms` and row 10 ms, the latter two with all visual tokens;
    /// without any, a hundredth of `read_ms` and half of the row. A row of the target takes 100 ms.
    fn best(tower_ms: f64, read_ms: f64, tokens: usize, known: &[(f64, f64)]) -> f64 {
        let ms = |share: f64| {
            let front_ms = read_ms * share.max(0.01) + if share > 0.0 { tower_ms } else { 0.0 };
            let cost = DraftCost::usual([front_ms, 5.0 + 5.0 * share], chance_at(share, known, 0.75));
            cost.expected_ms(None, tokens, 100.0, 0.25)
        };
        SHARES.into_iter().min_by(|a, b| ms(*a).total_cmp(&ms(*b))).unwrap()
    }

    #[test]
    fn the_longer_the_prompt_the_smaller_the_share_and_the_longer_the_text_the_larger() {
        let by_prompt = [1.0, 1e3, 1e4, 1e5, 1e7].map(|read_ms| best(0.0, read_ms, 200, &[]));
        assert!(by_prompt.windows(2).all(|two| two[0] >= two[1]), "{by_prompt:?}");
        assert!(by_prompt[0] >= 0.25 && by_prompt[4] == 0.0, "{by_prompt:?}");
        let by_length = [1, 10, 100, 1000, 100_000].map(|tokens| best(0.0, 1e4, tokens, &[]));
        assert!(by_length.windows(2).all(|two| two[0] <= two[1]), "{by_length:?}");
        assert!(by_length[0] == 0.0 && by_length[4] >= 0.25, "{by_length:?}");
        // What was measured counts: a drafter that needs nothing of the video is given nothing, one that fails without all is given all.
        assert_eq!(best(0.0, 1e4, 200, &[(0.0, 0.9), (0.1, 0.9), (1.0, 0.9)]), 0.0);
        let needy = SHARES.map(|share| (share, if share < 1.0 { 0.05 } else { 0.9 }));
        assert_eq!([100, 1000].map(|tokens| best(0.0, 1e4, tokens, &needy)), [0.0, 1.0]);
    }

    #[test]
    fn a_tower_that_takes_longer_than_drafting_saves_is_left_out() {
        assert!(best(1.0, 1.0, 100, &[]) > 0.0);
        assert_eq!(best(1e5, 1.0, 100, &[]), 0.0);
    }

    #[test]
    fn chances_fall_with_the_share_and_follow_what_was_measured() {
        for known in [&[][..], &[(0.1, 0.6)], &[(1.0, 0.9)], &[(0.0, 0.2)]] {
            let chances = SHARES.map(|share| chance_at(share, known, 0.75));
            assert!(chances.windows(2).all(|two| two[0] <= two[1]), "{known:?}: {chances:?}");
            for (share, measured) in known {
                assert!((chance_at(*share, known, 0.75) - measured).abs() < 1e-12, "{known:?}");
            }
        }
        assert!(chance_at(0.25, &[(0.1, 0.2), (1.0, 0.9)], 0.75) < 0.4, "the nearer one counts");
        for measured in [0.0, 1.0] {
            assert!((0.0..1.0).contains(&chance_at(0.0, &[(1.0, measured)], 0.75)));
        }
    }

    #[test]
    fn the_more_drafts_fail_and_the_longer_one_takes_the_longer_the_text() {
        let cost = DraftCost::usual([0.0, 2.0], 0.8);
        let ms = |failing, row| cost.with(failing, row).expected_ms(None, 100, 10.0, 0.25);
        assert!((ms(1.0, 1.0) - cost.expected_ms(None, 100, 10.0, 0.25)).abs() < 1e-6);
        assert!(ms(0.5, 1.0) < ms(1.0, 1.0) && ms(1.0, 1.0) < ms(2.0, 1.0));
        assert!(ms(1.0, 0.5) < ms(1.0, 1.0) && ms(1.0, 1.0) < ms(1.0, 2.0));
        assert!((cost.with(2.0, 1.0).chance - 0.6).abs() < 1e-12);
        // The worst is to draft nothing.
        assert_eq!(ms(9.0, 9.0), 1000.0);
    }

    #[test]
    fn what_drafts_nothing_takes_what_the_target_takes() {
        let alone = DraftCost { offers: 0.0, ..DraftCost::usual([0.0; 2], 0.0) };
        assert_eq!(alone.expected_ms(None, 50, 10.0, 0.25), 500.0);
        let fast = DraftCost::usual([0.0, 1.0], 0.9);
        assert!(fast.expected_ms(None, 50, 10.0, 0.25) < 300.0);
        // Experts that every further row reads.
        assert!(fast.expected_ms(None, 50, 10.0, 0.7) > 1.5 * fast.expected_ms(None, 50, 10.0, 0.25));
        assert_eq!(DraftCost::usual([7.0, 99.0], 0.1).expected_ms(None, 50, 10.0, 0.25), 507.0);
        // Lookup that seldom finds something is not worth more than what it finds: its drafts pass half of the time, in one of ten steps.
        let found = DraftCost::usual([0.0; 2], 0.5);
        let (always, seldom) = (found, DraftCost { offers: 0.1, ..found });
        let [always, seldom] = [always, seldom].map(|cost| cost.expected_ms(None, 50, 10.0, 0.25));
        assert!(always < 400.0 && seldom > 450.0 && seldom < 500.0, "{always} and {seldom}");
    }

    /// It costs nothing, so a drafter is worth what it gains in the other steps.
    #[test]
    fn prompt_lookup_is_worth_something_beside_any_drafter() {
        let found = DraftCost { offers: 0.6, ..DraftCost::usual([0.0; 2], 0.9) };
        let model = DraftCost::usual([30.0, 3.0], 0.7);
        let alone = DraftCost { offers: 0.0, ..DraftCost::usual([0.0; 2], 0.0) };
        let ms = |of: &DraftCost, lookup| of.expected_ms(lookup, 500, 10.0, 0.1);
        assert!((ms(&alone, Some(&found)) / ms(&found, None) - 1.0).abs() < 0.02);
        let [lookup, draft_model, both] = [ms(&found, None), ms(&model, None), ms(&model, Some(&found))];
        assert!(both < 0.97 * lookup && lookup < draft_model, "{both}, {lookup} and {draft_model}");
    }
}
