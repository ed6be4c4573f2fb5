//! Truth tables of divergence, glance and all_of, and what must hold for any rows.

use proptest::prelude::*;
use rand::SeedableRng;

use super::*;
use crate::method::StateAt;

fn verdicts(rule: &Acceptance, rows: &[Row]) -> Vec<Option<Verdict>> {
    judge(rule, rows, &mut ChaCha8Rng::seed_from_u64(11))
}

fn wrong() -> Row {
    Row { draft: 1, wanted: 2, ..Row::default() }
}

fn all_of(rules: &[Acceptance]) -> Acceptance {
    Acceptance::AllOf { rules: rules.to_vec() }
}

#[test]
fn divergence_passes_strictly_below_its_threshold() {
    let rule = Acceptance::Divergence { threshold: 0.3 };
    for (divergence, passes) in [
        (Some(0.0), true),
        (Some(0.299), true),
        (Some(0.3), false),
        (Some(0.31), false),
        (Some(f32::INFINITY), false),
        (Some(f32::NAN), false),
        (None, false),
    ] {
        let got = verdicts(&rule, &[Row { divergence, ..wrong() }]);
        assert_eq!(got, [passes.then_some(Verdict::Divergence)], "{divergence:?}");
        // A match always passes, and an end token only by matching.
        let same = Row { divergence, wanted: 1, ..wrong() };
        assert_eq!(verdicts(&rule, &[same]), [Some(Verdict::Exact)]);
        assert_eq!(verdicts(&rule, &[Row { divergence, protected: true, ..wrong() }]), [None]);
    }
    let none = Acceptance::Divergence { threshold: 0.0 };
    assert_eq!(verdicts(&none, &[Row { divergence: Some(0.0), ..wrong() }]), [None]);
}

#[test]
fn typical_asks_for_less_probability_where_the_target_is_undecided() {
    // With epsilon 0.09 and delta 0.3 the entropy matters from ln(0.3 / 0.09) = 1.204 nats on.
    for (epsilon, delta, probability, entropy_full, passes) in [
        (0.09f32, 0.3f32, 0.1f32, 0.0f32, true),
        (0.09, 0.3, 0.09, 0.0, false),
        (0.09, 0.3, 0.08, 1.2, false),
        (0.09, 0.3, 0.08, 1.4, true),
        (0.09, 0.3, 0.01, 3.0, false),
        (0.09, 0.3, 0.02, 3.0, true),
        (0.0, 0.3, 1e-9, 0.0, true),
        (0.09, 0.0, 1e-9, 0.0, true),
        (0.09, 0.3, 0.0, 9.0, false),
        (0.0, 0.0, 0.0, 9.0, false),
        (1.0, 1.0, 0.5, 0.0, false),
        (1.0, 1.0, 0.5, 0.7, true),
    ] {
        let rule = Acceptance::Typical { epsilon, delta };
        let row = Row { log_p_draft: probability.ln(), entropy_full, ..wrong() };
        let got = verdicts(&rule, std::slice::from_ref(&row));
        assert_eq!(got, [passes.then_some(Verdict::Lenient)], "{rule:?} {probability} {entropy_full}");
        assert_eq!(verdicts(&rule, &[Row { protected: true, ..row.clone() }]), [None]);
        assert_eq!(verdicts(&rule, &[Row { wanted: 1, ..row }]), [Some(Verdict::Exact)]);
    }
    let needs = RuleNeeds { probabilities: true, entropy_full: true, ..RuleNeeds::default() };
    assert_eq!(RuleNeeds::of(&Acceptance::Typical { epsilon: 0.09, delta: 0.3 }), needs);
}

#[test]
fn cost_adds_what_the_models_and_the_draft_differ_by() {
    let row = |divergence, gap: f32| Row { divergence, log_p_draft: -1.0 - gap, log_p_max: -1.0, ..wrong() };
    for (limit, ratio, divergence, gap, passes) in [
        (0.8f32, 1.0f32, Some(0.3), 0.4f32, true),
        (0.8, 1.0, Some(0.5), 0.4, false),
        (0.8, 0.5, Some(0.5), 0.4, true),
        (0.8, 0.0, Some(0.5), 9.0, true),
        (0.0, 1.0, Some(0.0), 0.0, false),
        (9.0, 1.0, Some(f32::INFINITY), 0.0, false),
        (9.0, 1.0, Some(0.0), f32::INFINITY, false),
        (9.0, 1.0, None, 0.0, false),
    ] {
        let rule = Acceptance::Cost { limit, ratio };
        let got = verdicts(&rule, &[row(divergence, gap)]);
        assert_eq!(got, [passes.then_some(Verdict::Divergence)], "{rule:?} {divergence:?} {gap}");
        assert_eq!(verdicts(&rule, &[Row { protected: true, ..row(divergence, gap) }]), [None]);
    }
}

#[test]
fn glance_loosens_where_attention_peaks_least() {
    let rows = |peaks: &[Option<f32>]| -> Vec<Row> {
        peaks.iter().map(|&attention_peak| Row { attention_peak, ..wrong() }).collect()
    };
    let passed = |lambda, peaks: &[Option<f32>]| -> Vec<bool> {
        let got = verdicts(&Acceptance::Glance { lambda }, &rows(peaks));
        assert!(got.iter().flatten().all(|verdict| *verdict == Verdict::Loosened));
        got.iter().map(Option::is_some).collect()
    };
    let peaks = [Some(0.5), Some(0.1), Some(0.9), Some(0.2)];
    assert_eq!(passed(0.5, &peaks), [false, true, false, true]);
    assert_eq!(passed(0.25, &peaks), [false, true, false, false]);
    // The share is of the drafts there are, rounded down: 0.7 of 3 is 2, 0.9 of 1 is none.
    assert_eq!(passed(0.7, &peaks[..3]), [true, true, false]);
    assert_eq!(passed(0.9, &peaks[..1]), [false]);
    // Ties go to the earlier draft; a peak that is not there counts as none at all.
    assert_eq!(passed(0.5, &[Some(0.3), Some(0.3)]), [true, false]);
    assert_eq!(passed(0.5, &[Some(0.3), None]), [false, true]);
    // A match keeps its place in the order and uses up its share.
    let mut rows = rows(&peaks);
    rows[1].wanted = 1;
    let got = verdicts(&Acceptance::Glance { lambda: 0.5 }, &rows);
    assert_eq!(got, [None, Some(Verdict::Exact), None, Some(Verdict::Loosened)]);
    // Relevance is another signal, and there is no tolerance of shifts.
    rows.iter_mut().for_each(|row| (row.wanted, row.relevance) = (1, Some(-1.0)));
    rows[0].draft = 7;
    assert_eq!(verdicts(&Acceptance::Glance { lambda: 0.0 }, &rows)[0], None);
}

#[test]
fn all_of_needs_every_rule_and_the_first_gives_the_verdict() {
    let lenient = Acceptance::Lenient { rho: 0.5 };
    let entropy = Acceptance::Entropy { threshold: 1.0, entropy: EntropyOver::Full };
    let row = |likely: bool, undecided: bool| Row {
        log_p_max: 0.5f32.ln(),
        log_p_draft: if likely { 0.4f32.ln() } else { 0.1f32.ln() },
        entropy_full: if undecided { 1.5 } else { 0.5 },
        ..wrong()
    };
    for (likely, undecided) in [(false, false), (false, true), (true, false), (true, true)] {
        let row = row(likely, undecided);
        let both = likely && undecided;
        let one = std::slice::from_ref(&row);
        let reason = |first: &Acceptance, second: &Acceptance| {
            verdicts(&all_of(&[first.clone(), second.clone()]), one)[0]
        };
        assert_eq!(reason(&lenient, &entropy), both.then_some(Verdict::Lenient));
        assert_eq!(reason(&entropy, &lenient), both.then_some(Verdict::Entropy));
        let protected = [Row { protected: true, ..row.clone() }];
        assert_eq!(verdicts(&all_of(&[lenient.clone(), entropy.clone()]), &protected), [None]);
        let same = [Row { draft: 2, ..row }];
        assert_eq!(verdicts(&all_of(&[lenient.clone(), entropy.clone()]), &same), [Some(Verdict::Exact)]);
    }
}

#[test]
fn each_rule_asks_for_its_own_signals() {
    let visual = Acceptance::Visual {
        lambda: 0.5,
        top_n: 4,
        shift_tolerant: false,
        at: StateAt::Before,
        always_strict: vec![],
    };
    let glance = Acceptance::Glance { lambda: 0.5 };
    let divergence = Acceptance::Divergence { threshold: 0.3 };
    let full = Acceptance::Entropy { threshold: 0.3, entropy: EntropyOver::Full };
    let random = Acceptance::Random { probability: 0.5, seed: 1 };
    let needs = RuleNeeds::of(&all_of(&[visual, glance, divergence, full]));
    let most = RuleNeeds {
        relevance: Some(RelevanceNeeds { top_n: 4, at: StateAt::Before }),
        attention_peaks: true,
        divergence: true,
        entropy_full: true,
        ..RuleNeeds::default()
    };
    assert_eq!(needs, most);
    assert_eq!(RuleNeeds::of(&all_of(&[random])), RuleNeeds { chance: true, ..RuleNeeds::default() });
    assert_eq!(
        RuleNeeds::of(&Acceptance::Lenient { rho: 0.1 }),
        RuleNeeds { probabilities: true, ..RuleNeeds::default() }
    );
}

prop_compose! {
    fn row()(
        draft in 0u32..5,
        wanted in 0u32..5,
        protected in prop::bool::weighted(0.2),
        log_p in (-6.0f32..0.0, -3.0f32..0.0),
        entropy in (0.0f32..1.1, 0.0f32..4.0),
        relevance in prop::option::of(-1.0f32..1.0),
        attention_peak in prop::option::of(0.0f32..1.0),
        divergence in prop::option::of(0.0f32..3.0),
    ) -> Row {
        Row {
            draft,
            wanted,
            log_p_draft: log_p.0.min(log_p.1),
            log_p_max: log_p.1,
            entropy_top3: entropy.0,
            entropy_full: entropy.1,
            relevance,
            attention_peak,
            divergence,
            protected,
        }
    }
}

fn rows() -> impl Strategy<Value = Vec<Row>> {
    prop::collection::vec(row(), 0..14)
}

fn loosening() -> impl Strategy<Value = Acceptance> {
    let over = || prop_oneof![Just(EntropyOver::Top3), Just(EntropyOver::Full)];
    prop_oneof![
        (0.0f64..=1.0).prop_map(|lambda| Acceptance::Glance { lambda }),
        (0.0f32..3.0).prop_map(|threshold| Acceptance::Divergence { threshold }),
        (0.0f32..=1.0).prop_map(|rho| Acceptance::Lenient { rho }),
        (0.0f32..=1.0, 0.0f32..=1.0).prop_map(|(epsilon, delta)| Acceptance::Typical { epsilon, delta }),
        (0.0f32..2.0, over()).prop_map(|(threshold, entropy)| Acceptance::Entropy { threshold, entropy }),
        (1usize..5, 0.0f32..2.0, over()).prop_map(|(length, threshold, entropy)| Acceptance::Window {
            length,
            threshold,
            entropy
        }),
        (0.0f64..=1.0, any::<bool>()).prop_map(|(lambda, shift_tolerant)| Acceptance::Visual {
            lambda,
            top_n: 3,
            shift_tolerant,
            at: StateAt::Draft,
            always_strict: vec![]
        }),
        (0.0f64..=1.0).prop_map(|probability| Acceptance::Random { probability, seed: 0 }),
    ]
}

proptest! {
    #[test]
    fn all_of_passes_exactly_what_each_of_its_rules_passes(
        rows in rows(),
        rules in prop::collection::vec(loosening(), 1..5),
    ) {
        let all = verdicts(&all_of(&rules), &rows);
        let each: Vec<_> = rules.iter().map(|rule| verdicts(rule, &rows)).collect();
        for i in 0..rows.len() {
            prop_assert_eq!(all[i].is_some(), each.iter().all(|verdicts| verdicts[i].is_some()));
        }
        // So it accepts no more than the strictest of them, in any order.
        prop_assert!(each.iter().all(|verdicts| accepted(&all) <= accepted(verdicts)));
        prop_assert_eq!(&all, &verdicts(&all_of(&rules), &rows));
        prop_assert_eq!(verdicts(&all_of(&rules[..1]), &rows), each[0].clone());
        let turned: Vec<_> = rules.iter().rev().cloned().collect();
        let turned = verdicts(&all_of(&turned), &rows);
        prop_assert!(all.iter().zip(&turned).all(|(a, b)| a.is_some() == b.is_some()));
    }

    #[test]
    fn glance_zero_is_exact_and_one_accepts_all_but_protected(rows in rows()) {
        let glance = |lambda| verdicts(&Acceptance::Glance { lambda }, &rows);
        prop_assert_eq!(glance(0.0), verdicts(&Acceptance::Exact {}, &rows));
        for (row, verdict) in rows.iter().zip(glance(1.0)) {
            prop_assert_eq!(verdict.is_some(), row.matches() || !row.protected);
        }
    }

    #[test]
    fn looser_numbers_accept_no_less(rows in rows(), a in 0.0f64..=1.0, b in 0.0f64..=1.0) {
        let (low, high) = (a.min(b), a.max(b));
        let glance = |lambda| accepted(&verdicts(&Acceptance::Glance { lambda }, &rows));
        prop_assert!(glance(low) <= glance(high));
        let divergence =
            |share: f64| accepted(&verdicts(&Acceptance::Divergence { threshold: 3.0 * share as f32 }, &rows));
        prop_assert!(divergence(low) <= divergence(high));
    }

    #[test]
    fn a_verdict_is_strict_where_the_draft_is_the_targets_token(rows in rows(), rule in loosening()) {
        for (row, verdict) in rows.iter().zip(verdicts(&rule, &rows)) {
            match verdict {
                None => prop_assert!(!row.matches()),
                Some(verdict) => {
                    prop_assert_eq!(verdict.is_strict(), row.matches());
                    prop_assert!(row.matches() || !row.protected);
                    prop_assert!(verdict.is_accepted_draft());
                }
            }
        }
    }
}
