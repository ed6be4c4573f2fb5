//! The length of a chain that pays off, from measured times and acceptance.
//!
//! T(rows) is a line through the target's latest passes; the chance that a draft passes is counted over the latest drafts. K = 0,
//! autoregressive decoding, is among the choices: where drafting does not pay, it stops and is tried again occasionally, for a few
//! steps in a row, since the first one after a rest says little: the drafter has to read what was written meanwhile.

use std::borrow::Cow;

use super::{GUESSED_ROWS, best_length};
use crate::fit::{FadingChance, PassTimes, UsualTime};

/// Longest chain that is considered.
pub const LONGEST: usize = 24;
/// Plain steps before a trial; doubled after each trial that did not pay.
const REST: usize = 16;
/// Most plain steps between two trials.
const LONG_REST: usize = 256;
/// Steps of a trial, and of the beginning.
const TRIAL: usize = 2;
/// Chain length of a trial.
const TRY: usize = 2;
/// The same for a drafter that drafts any chain in the same time.
const TRY_AT_ONCE: usize = 4;
/// Number of passes for which earlier knowledge counts.
const GUESSED: usize = 4;
/// Chain length of the first step.
const FIRST: usize = 4;

/// Chooses the length of the next chain.
#[derive(Clone, Debug)]
pub struct AutoLength {
    passes: PassTimes,
    /// Time of one target row, if it was known before the first pass.
    row_ms: Option<f64>,
    /// Time of a further row relative to the first one, before the first passes.
    further: f64,
    drafter_ms: UsualTime,
    /// The longest chain of a drafter that drafts any chain in the same time.
    at_once: Option<usize>,
    /// True if the drafter has not read the latest tokens, since the last step had no drafts.
    behind: bool,
    chance: FadingChance,
    /// Steps left of the trial, or of the beginning.
    trial: usize,
    /// Plain steps since the last trial, and those before the next.
    plain: usize,
    rest: usize,
}

impl AutoLength {
    /// Begin; `row_ms` is the time of one target row, where known, and `further` what another row of its pass is taken to cost, relative
    /// to it ([`further_row`](super::further_row)).
    pub fn new(row_ms: Option<f64>, further: f64) -> Self {
        Self {
            passes: PassTimes::default(),
            row_ms,
            further,
            drafter_ms: UsualTime::default(),
            at_once: None,
            behind: false,
            chance: FadingChance::default(),
            trial: TRIAL,
            plain: 0,
            rest: REST,
        }
    }

    /// For a drafter that drafts any chain up to this length in the same time (DFlash); `None` = it drafts token by token.
    pub fn at_once(self, at_once: Option<usize>) -> Self {
        Self { at_once, ..self }
    }

    /// The length for the next step.
    pub fn choose(&mut self) -> usize {
        let best = self.best();
        let in_trial = self.trial > 0;
        self.trial = self.trial.saturating_sub(1);
        if best > 0 {
            (self.plain, self.rest) = (0, REST);
            return best;
        }
        if !in_trial {
            self.plain += 1;
            if self.plain <= self.rest {
                return 0;
            }
            (self.plain, self.rest, self.trial) = (0, (2 * self.rest).min(LONG_REST), TRIAL - 1);
        }
        self.at_once.map_or(TRY, |most| most.min(TRY_AT_ONCE))
    }

    fn best(&self) -> usize {
        let mut passes = Cow::Borrowed(&self.passes);
        if let Some(ms) = self.row_ms.filter(|_| self.passes.len() < GUESSED) {
            passes.to_mut().push(1, ms);
            passes.to_mut().push(GUESSED_ROWS, ms + self.further * (GUESSED_ROWS - 1) as f64 * ms);
        }
        let (Some((first, more)), Some(drafter)) = (passes.line(), self.drafter_ms.value()) else {
            return self.at_once.map_or(FIRST, |most| most.min(FIRST));
        };
        let chance = self.chance.value();
        let Some(most) = self.at_once else {
            return best_length(LONGEST, chance, drafter, first, more).0;
        };
        let (length, rate) = best_length(most, chance, 0.0, drafter + first, more);
        // Without drafts there is nothing to draft either.
        if rate * first > 1.0 { length } else { 0 }
    }

    /// Note a step: the rows of the verify pass, how many drafts were judged and passed, the times of the pass and of drafting.
    pub fn note(&mut self, rows: usize, [drafts, accepted]: [usize; 2], verify_ms: f64, draft_ms: f64) {
        self.passes.push(rows, verify_ms);
        if drafts > 0 {
            if !self.behind {
                self.drafter_ms.push(if self.at_once.is_some() {
                    draft_ms
                } else {
                    draft_ms / drafts as f64
                });
            }
            self.chance.add(drafts, accepted);
        }
        self.behind = drafts == 0;
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    /// Tokens per millisecond of a made-up pair, with K from `choose`; `verify` is the time of a pass by its rows.
    fn rate(
        chance: f64,
        verify: &dyn Fn(usize) -> f64,
        drafter: f64,
        mut choose: impl FnMut() -> Option<usize>,
    ) -> f64 {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let mut auto = AutoLength::new(Some(verify(1)), 0.25);
        let (mut tokens, mut time) = (0.0, 0.0);
        for _ in 0..400 {
            let k = choose().unwrap_or_else(|| auto.choose());
            let accepted = (0..k).take_while(|_| rng.random::<f64>() < chance).count();
            let noise = rng.random_range(0.9..1.1);
            let (verify, draft) = (verify(k + 1) * noise, drafter * k as f64);
            auto.note(k + 1, [k, accepted], verify, draft);
            tokens += accepted as f64 + 1.0;
            time += verify + draft;
        }
        tokens / time
    }

    fn is_near_the_best(chance: f64, verify: &dyn Fn(usize) -> f64, drafter: f64, what: &str) {
        let fixed = |k| rate(chance, verify, drafter, || Some(k));
        let best = (0..=LONGEST).map(fixed).fold(0.0, f64::max);
        let auto = rate(chance, verify, drafter, || None);
        assert!(auto > 0.9 * best, "{what}: {chance} {drafter}: {auto} of {best}");
    }

    #[test]
    fn it_approaches_the_best_fixed_length() {
        for (chance, first, more, drafter) in
            [(0.8, 1.0, 0.1, 0.1), (0.6, 1.0, 0.4, 0.15), (0.9, 5.0, 0.1, 0.5), (0.3, 1.0, 0.9, 0.5)]
        {
            let line = |rows: usize| first + more * (rows - 1) as f64;
            is_near_the_best(chance, &line, drafter, &format!("{first} {more}"));
        }
    }

    /// In a mixture of experts the first further rows read the most weights.
    #[test]
    fn it_approaches_the_best_fixed_length_where_rows_take_experts() {
        let routing = specreel_tensor::experts::Routing { experts: 128, chosen: 8 };
        for share in [0.4, 0.7] {
            let verify = |rows: usize| 1.0 - share + share * routing.touched(rows) / 8.0 + 0.05 * rows as f64;
            for (chance, drafter) in [(0.95, 0.1), (0.8, 0.2), (0.5, 0.3)] {
                is_near_the_best(chance, &verify, drafter, &format!("experts, {share}"));
            }
        }
    }

    /// Without them the first guess would be less than what was measured, and weigh as much.
    #[test]
    fn experts_that_further_rows_read_shorten_the_first_chains() {
        let first = |further: f64| {
            let mut auto = AutoLength::new(Some(10.0), further);
            auto.note(5, [4, 3], 35.0, 4.0);
            auto.choose()
        };
        assert!(first(0.625) < first(0.25), "{} and {}", first(0.625), first(0.25));
    }

    /// Other programs take a processor away in the middle of a pass, for many times as long as the pass: the lengths, and so the
    /// accepted drafts, stay as on a quiet machine.
    #[test]
    fn a_busy_machine_does_not_change_the_lengths() {
        let lengths = |interrupted: f64| {
            let mut rng = ChaCha8Rng::seed_from_u64(11);
            let mut auto = AutoLength::new(Some(0.2), 0.25);
            let mut sum = 0;
            for _ in 0..400 {
                let k = auto.choose();
                let accepted = (0..k).take_while(|_| rng.random::<f64>() < 0.85).count();
                let mut disturbed = |ms: f64| ms + if rng.random_bool(interrupted) { 4.0 } else { 0.0 };
                auto.note(k + 1, [k, accepted], disturbed(0.2 + 0.03 * k as f64), disturbed(0.04 * k as f64));
                sum += k;
            }
            f64::from(sum as u32) / 400.0
        };
        let (quiet, busy) = (lengths(0.0), lengths(0.3));
        assert!((busy / quiet - 1.0).abs() < 0.2, "{quiet} and {busy} drafts per step");
    }

    #[test]
    fn drafting_stops_where_it_never_pays() {
        let mut auto = AutoLength::new(Some(1.0), 0.25);
        let lengths: Vec<usize> = (0..200)
            .map(|_| {
                let k = auto.choose();
                auto.note(k + 1, [k, 0], 1.0 + k as f64, 0.5 * k as f64);
                k
            })
            .collect();
        assert!(lengths[20..].iter().filter(|&&k| k > 0).count() <= TRIAL * (200 / REST + 1), "{lengths:?}");
        assert!(lengths[20..].iter().any(|&k| k > 0));
    }

    /// A drafter reads in its first step after a rest what was written meanwhile, and the first drafts may all be rejected.
    #[test]
    fn drafting_begins_again_after_a_rest() {
        for at_once in [None, Some(7)] {
            let mut auto = AutoLength::new(Some(1.0), 0.1).at_once(at_once);
            let (mut waiting, mut rested) = (0, false);
            for step in 0..100 {
                let k = auto.choose();
                assert!(k <= at_once.unwrap_or(LONGEST), "{k} drafts in step {step}");
                let accepted = if step < 8 { 0 } else { k };
                let drafter = if at_once.is_some() { 0.3 } else { 0.1 * k as f64 };
                auto.note(k + 1, [k, accepted], 1.0 + 0.1 * k as f64, drafter + 0.5 * f64::from(waiting));
                waiting = if k == 0 { waiting + 1 } else { 0 };
                rested |= k == 0;
            }
            assert!(rested && auto.choose() > TRY_AT_ONCE, "{at_once:?}");
        }
    }

    #[test]
    fn what_drafts_at_once_drafts_more() {
        let length = |at_once: bool| {
            let mut auto = AutoLength::new(Some(1.0), 0.1).at_once(at_once.then_some(LONGEST));
            for _ in 0..40 {
                let k = auto.choose();
                auto.note(k + 1, [k, k * 4 / 5], 1.0 + 0.1 * k as f64, if k > 0 { 0.8 } else { 0.0 });
            }
            auto.choose()
        };
        assert!(length(true) > length(false), "{} and {}", length(true), length(false));
        // A block that takes longer than the tokens that it saves.
        let mut auto = AutoLength::new(Some(1.0), 0.1).at_once(Some(LONGEST));
        (0..40).for_each(|_| {
            let k = auto.choose();
            auto.note(k + 1, [k, k / 4], 1.0 + 0.1 * k as f64, 5.0);
        });
        assert_eq!(auto.best(), 0);
    }

    #[test]
    fn extreme_times_are_harmless() {
        let mut auto = AutoLength::new(None, 0.25);
        for ms in [0.0, f64::MAX / 1e10, 1e-300] {
            let k = auto.choose();
            assert!(k <= LONGEST);
            auto.note(k + 1, [k, k], ms, ms);
        }
    }
}
