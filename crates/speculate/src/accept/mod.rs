//! Which proposals pass: pure functions on a step's rows, one verdict or a rejection per draft.
//!
//! Row i (from 0) judges draft i against the target's prediction of the row before it. The longest prefix of passed drafts
//! is accepted; the caller appends the target's own token after it.
//!
//! A new rule needs a row of the table (`method::axes`) and a line in each of [`RuleNeeds::of`], [`verdict`], `Acceptance::is_strict` and
//! `mismatches`.

pub mod relevance;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::method::{Acceptance, EntropyOver};
pub use super::method::{RelevanceNeeds, RuleNeeds};
use specreel_record::Verdict;

/// One draft with everything that a rule may judge it by.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    pub draft: u32,
    /// The target's own token at this position.
    pub wanted: u32,
    /// Natural-log probability of the draft under the target; this and the next two only where a rule needs
    /// probabilities.
    pub log_p_draft: f32,
    /// Natural-log probability of the target's most likely token.
    pub log_p_max: f32,
    /// Entropy of the target's distribution over its top three, in nats.
    pub entropy_top3: f32,
    /// Entropy of the whole distribution, in nats; only where a rule needs it.
    pub entropy_full: f32,
    /// Visual relevance of the draft (LVSpec); `None` where no rule needs it.
    pub relevance: Option<f32>,
    /// The largest attention weight on one visual token in the row before, mean over layers and heads; `None` where no rule
    /// needs it.
    pub attention_peak: Option<f32>,
    /// KL(target, drafter) at this position, in nats; `None` where no rule needs it, or the drafter has no distribution.
    pub divergence: Option<f32>,
    /// Draft or wanted token is an end or special token, or a word that must stay strict: never loosened.
    pub protected: bool,
}

impl Row {
    fn matches(&self) -> bool {
        self.draft == self.wanted
    }

    fn entropy(&self, over: EntropyOver) -> f32 {
        match over {
            EntropyOver::Top3 => self.entropy_top3,
            EntropyOver::Full => self.entropy_full,
        }
    }
}

/// A verdict for each draft that passes, none for each that is rejected, each judged on its own (the prefix rule is the
/// caller's). `sampled` acceptance is not judged here when sampling: it needs both distributions (`speculate::verify`).
///
/// Greedy matches are always `exact`. A protected row passes only by matching.
pub fn judge(rule: &Acceptance, rows: &[Row], rng: &mut ChaCha8Rng) -> Vec<Option<Verdict>> {
    let chances: Vec<f64> = match RuleNeeds::of(rule).chance {
        true => rows.iter().map(|_| rng.random()).collect(),
        false => vec![0.0; rows.len()],
    };
    let passes = mismatches(rule, rows, &chances);
    rows.iter()
        .zip(passes)
        .map(|(row, passes)| match row.matches() {
            true => Some(Verdict::Exact),
            false => passes.filter(|_| !row.protected),
        })
        .collect()
}

/// The verdict with which a rule passes a mismatch; strict for rules that pass none. If there are several rules, the first names the reason.
/// (`visual` has a second one, [`Verdict::Shifted`], for tolerated shifts.)
pub fn verdict(rule: &Acceptance) -> Verdict {
    match rule {
        Acceptance::Exact {} => Verdict::Exact,
        Acceptance::Sampled {} => Verdict::Sampled,
        Acceptance::Entropy { .. } => Verdict::Entropy,
        Acceptance::Window { .. } => Verdict::Window,
        Acceptance::Visual { .. } | Acceptance::Glance { .. } => Verdict::Loosened,
        Acceptance::Lenient { .. } | Acceptance::Typical { .. } => Verdict::Lenient,
        Acceptance::Divergence { .. } | Acceptance::Cost { .. } => Verdict::Divergence,
        Acceptance::Random { .. } => Verdict::Chance,
        Acceptance::AllOf { rules } => rules.first().map_or(Verdict::Exact, verdict),
    }
}

/// For each row the verdict with which the rule would pass it as a mismatch.
fn mismatches(rule: &Acceptance, rows: &[Row], chances: &[f64]) -> Vec<Option<Verdict>> {
    let each = |passes: &dyn Fn(usize, &Row) -> bool| -> Vec<Option<Verdict>> {
        rows.iter().enumerate().map(|(i, row)| passes(i, row).then(|| verdict(rule))).collect()
    };
    match rule {
        Acceptance::Exact {} | Acceptance::Sampled {} => vec![None; rows.len()],
        Acceptance::Entropy { threshold, entropy } => each(&|_, row| row.entropy(*entropy) >= *threshold),
        Acceptance::Window { length, threshold, entropy } => each(&|i, row| {
            let followed = rows.get(i + 1..i + length).is_some_and(|w| w.iter().all(Row::matches));
            followed && row.entropy(*entropy) >= *threshold
        }),
        Acceptance::Visual { lambda, shift_tolerant, .. } => {
            let loosened = relevance::lowest(rows, *lambda, |row| row.relevance);
            let shifted = |row: &Row| *shift_tolerant && rows.iter().any(|other| other.draft == row.wanted);
            let verdict = |(row, loosened): (&Row, bool)| match loosened {
                true => Some(Verdict::Loosened),
                false => shifted(row).then_some(Verdict::Shifted),
            };
            rows.iter().zip(loosened).map(verdict).collect()
        }
        Acceptance::Glance { lambda } => {
            let loosened = relevance::lowest(rows, *lambda, |row| row.attention_peak);
            each(&|i, _| loosened[i])
        }
        Acceptance::Lenient { rho } => each(&|_, row| row.log_p_draft >= rho.ln() + row.log_p_max),
        Acceptance::Typical { epsilon, delta } => {
            each(&|_, row| row.log_p_draft.exp() > epsilon.min(delta * (-row.entropy_full).exp()))
        }
        Acceptance::Divergence { threshold } => {
            each(&|_, row| row.divergence.is_some_and(|kl| kl < *threshold))
        }
        Acceptance::Cost { limit, ratio } => each(&|_, row| {
            row.divergence.is_some_and(|kl| kl + ratio * (row.log_p_max - row.log_p_draft) < *limit)
        }),
        Acceptance::Random { probability, .. } => each(&|i, _| chances[i] < *probability),
        Acceptance::AllOf { rules } => {
            let all: Vec<_> = rules.iter().map(|rule| mismatches(rule, rows, chances)).collect();
            let verdict = |i: usize| all.iter().map(|verdicts| verdicts[i]).collect::<Option<Vec<_>>>();
            (0..rows.len()).map(|i| verdict(i)?.first().copied()).collect()
        }
    }
}

/// Length of the accepted prefix.
pub fn accepted(verdicts: &[Option<Verdict>]) -> usize {
    verdicts.iter().take_while(|v| v.is_some()).count()
}

#[cfg(test)]
mod rule_tests;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::SeedableRng;

    use super::*;
    use crate::method::StateAt;

    fn rng() -> ChaCha8Rng {
        ChaCha8Rng::seed_from_u64(0)
    }

    /// Rows from match bits; mismatches want id 99.
    fn bits(bits: &[u8]) -> Vec<Row> {
        let row = |(i, &b): (usize, &u8)| Row {
            draft: i as u32,
            wanted: if b == 1 { i as u32 } else { 99 },
            entropy_top3: 1.0,
            relevance: Some(i as f32),
            ..Row::default()
        };
        bits.iter().enumerate().map(row).collect()
    }

    fn verdicts(rule: &Acceptance, rows: &[Row]) -> Vec<Option<Verdict>> {
        judge(rule, rows, &mut rng())
    }

    fn window(length: usize) -> Acceptance {
        Acceptance::Window { length, threshold: 0.3, entropy: EntropyOver::Top3 }
    }

    fn visual(lambda: f64, shift_tolerant: bool) -> Acceptance {
        Acceptance::Visual { lambda, top_n: 10, shift_tolerant, at: StateAt::Draft, always_strict: vec![] }
    }

    #[test]
    fn fly_counts_the_mismatch_in_its_window() {
        let got = verdicts(&window(6), &bits(&[1, 0, 1, 1, 1, 1, 1, 0, 1]));
        assert_eq!(got[1], Some(Verdict::Window));
        assert_eq!(got[7], None);
        // Exactly a full window after the mismatch passes; one less does not.
        assert_eq!(verdicts(&window(4), &bits(&[0, 1, 1, 1]))[0], Some(Verdict::Window));
        assert_eq!(verdicts(&window(4), &bits(&[0, 1, 1]))[0], None);
        assert_eq!(verdicts(&window(4), &bits(&[0, 1, 0, 1, 1]))[0], None);
        let mut calm = bits(&[0, 1, 1, 1]);
        calm[0].entropy_top3 = 0.1;
        assert_eq!(verdicts(&window(4), &calm)[0], None);
    }

    #[test]
    fn entropy_gates_mismatches_only() {
        let rule = Acceptance::Entropy { threshold: 0.5, entropy: EntropyOver::Top3 };
        let mut rows = bits(&[1, 0, 0]);
        rows[0].entropy_top3 = 0.0;
        rows[1].entropy_top3 = 0.5;
        rows[2].entropy_top3 = 0.49;
        assert_eq!(verdicts(&rule, &rows), [Some(Verdict::Exact), Some(Verdict::Entropy), None]);
    }

    #[test]
    fn leniency_compares_with_the_best() {
        let rule = Acceptance::Lenient { rho: 0.2 };
        let mut rows = bits(&[0, 0]);
        (rows[0].log_p_max, rows[0].log_p_draft) = (0.5f32.ln(), 0.11f32.ln());
        (rows[1].log_p_max, rows[1].log_p_draft) = (0.5f32.ln(), 0.09f32.ln());
        assert_eq!(verdicts(&rule, &rows), [Some(Verdict::Lenient), None]);
    }

    #[test]
    fn visual_loosens_the_least_relevant_and_tolerates_shifts() {
        // Ten drafts, relevance ascending: the first seven are loosened at 0.7.
        let got = verdicts(&visual(0.7, false), &bits(&[0; 10]));
        assert_eq!(accepted(&got), 7);
        assert_eq!(got[6], Some(Verdict::Loosened));
        let mut rows = bits(&[0; 10]);
        rows[7].wanted = 2;
        let got = verdicts(&visual(0.7, true), &rows);
        assert_eq!(got[7], Some(Verdict::Shifted));
        assert_eq!(got[8], None);
    }

    #[test]
    fn random_passes_its_share() {
        let rows = bits(&[0; 4000]);
        let got = verdicts(&Acceptance::Random { probability: 0.3, seed: 0 }, &rows);
        let share = got.iter().filter(|v| v.is_some()).count() as f64 / 4000.0;
        assert!((share - 0.3).abs() < 0.03, "{share}");
    }

    prop_compose! {
        fn rows()(rows in prop::collection::vec((0u32..6, 0u32..6, -1.0f32..1.0, any::<bool>(), 0.0f32..1.1), 0..12))
            -> Vec<Row>
        {
            rows.into_iter().map(|(draft, wanted, relevance, protected, entropy_top3)| Row {
                draft, wanted, protected, entropy_top3, relevance: Some(relevance), ..Row::default()
            }).collect()
        }
    }

    proptest! {
        #[test]
        fn lambda_zero_is_exact_and_one_accepts_all_but_protected(rows in rows()) {
            prop_assert_eq!(
                verdicts(&visual(0.0, false), &rows),
                verdicts(&Acceptance::Exact {}, &rows)
            );
            let all = verdicts(&visual(1.0, false), &rows);
            for (row, verdict) in rows.iter().zip(all) {
                prop_assert_eq!(verdict.is_some(), row.matches() || !row.protected);
            }
        }

        #[test]
        fn accepted_length_grows_with_lambda_and_shifts_never_reject(rows in rows()) {
            let mut last = 0;
            for lambda in [0.0, 0.2, 0.5, 0.7, 0.9, 1.0] {
                let n = accepted(&verdicts(&visual(lambda, false), &rows));
                prop_assert!(n >= last);
                prop_assert!(accepted(&verdicts(&visual(lambda, true), &rows)) >= n);
                last = n;
            }
        }
    }
}
