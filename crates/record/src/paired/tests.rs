use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::{Token, Verdict};

#[test]
fn the_cuts_are_those_of_the_sign_test() {
    // Tables of the binomial distribution: P(X <= k) <= 0.025.
    for (n, k) in [(6, 0), (8, 0), (9, 1), (11, 1), (12, 2), (20, 5), (25, 7), (100, 39), (1000, 468)] {
        assert_eq!(cut(n), Some(k), "{n}");
    }
    assert_eq!((cut(0), cut(5)), (None, None));
}

#[test]
fn the_figure_is_the_median_between_two_pairs() {
    let ratio = PairedRatio::of(&[1.5, 1.4, 1.6, 1.3, 1.7, 99.0]).unwrap();
    assert_eq!((ratio.middle, ratio.low, ratio.high, ratio.pairs), (1.55, 1.3, 99.0, 6));
    let ratio = PairedRatio::of(&[1.5, 1.4, 1.6, 1.3, 1.7, 0.01, 1.5, 1.5, 99.0]).unwrap();
    assert_eq!((ratio.middle, ratio.low, ratio.high), (1.5, 1.3, 1.7));
    assert!(!ratio.is_settled() && (ratio.width() - 0.4 / 1.5).abs() < 1e-12);
    assert!(PairedRatio::of(&[2.0; 6]).unwrap().is_settled());
    assert_eq!(PairedRatio::of(&[1.0, 1.0, 1.0, 1.0, 1.0, f64::NAN, 0.0, -1.0, f64::INFINITY]), None);
}

#[test]
fn repetitions_leave_an_allowance_on_either_side() {
    let narrow = PairedRatio::of(&[2.0, 2.0, 2.0, 2.0, 2.01, 1.99]).unwrap().of_repetitions(0.0);
    assert_eq!(
        (narrow.middle, narrow.low, narrow.high),
        (2.0, 2.0 * (1.0 - ALLOWANCE), 2.0 * (1.0 + ALLOWANCE))
    );
    assert!(narrow.width() < NOISY, "the allowance alone does not make a figure rough");
    let wide = PairedRatio::of(&[2.0, 1.5, 2.5, 2.0, 2.0, 2.0]).unwrap();
    assert_eq!(wide.of_repetitions(0.0), wide);
    let busy = PairedRatio::of(&[2.0; 8]).unwrap().of_repetitions(0.5);
    assert!(
        busy.low < narrow.low && busy.high > narrow.high && busy.is_settled() == (busy.width() <= SETTLED)
    );
}

/// Times with the tails of a shared machine: mostly close, sometimes many times as long.
fn noisy(rng: &mut ChaCha8Rng, ms: f64) -> f64 {
    let stretch = if rng.random_bool(0.1) { rng.random_range(1.0..8.0) } else { rng.random_range(1.0..1.1) };
    ms * stretch
}

#[test]
fn the_interval_contains_the_true_median_under_heavy_tails() {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let mut pair = || noisy(&mut rng, 3.0) / noisy(&mut rng, 2.0);
    // Both sides are equal, so the median ratio is the times' ratio.
    for pairs in [6, 9, 12, 30] {
        let rounds = 2000;
        let hits = (0..rounds)
            .filter(|_| {
                let ratios: Vec<f64> = (0..pairs).map(|_| pair()).collect();
                let ratio = PairedRatio::of(&ratios).unwrap();
                ratio.low <= 1.5 && 1.5 <= ratio.high
            })
            .count();
        assert!(hits >= rounds * 94 / 100, "{pairs} pairs: {hits} of {rounds}");
    }
}

fn step(judged: usize, tokens: usize, ms: f64, plain_ms: Option<f64>) -> Step {
    Step {
        judged,
        tokens: vec![Token::new(1, "a", Verdict::Exact); tokens],
        verify_ms: ms,
        plain_ms,
        ..Step::default()
    }
}

#[test]
fn a_pass_between_steps_is_compared_with_the_steps_around_it() {
    // 12 tokens in 40 ms; a pass takes 10 ms. The second half ran on a machine at half speed, which the pass there also shows.
    let steps = [
        step(5, 4, 10.0, Some(10.0)),
        step(5, 4, 10.0, None),
        step(5, 2, 20.0, Some(20.0)),
        step(5, 2, 20.0, None),
    ];
    let pace = Pace::of(&steps);
    let ratios = pace.ratios();
    let expected = 15.0 * 12.0 / 60.0;
    assert!(ratios.iter().all(|ratio| (ratio - expected).abs() < 1e-9), "{ratios:?}");
    assert_eq!(ratios.len(), 2);
}

#[test]
fn steps_of_more_rows_are_not_taken_for_a_slow_machine() {
    let steps = [step(1, 1, 5.0, Some(4.0)), step(9, 9, 15.0, Some(4.0))];
    let ratios = Pace::of(&steps).ratios();
    assert!(ratios.iter().all(|ratio| (ratio - 4.0 * 10.0 / 20.0).abs() < 1e-9), "{ratios:?}");
}

/// The target decodes alone at 10 ms a token for 40 tokens; then another drafter reads the prompt in 500 ms, and steps with as many rows as
/// before take 30 ms instead of 12. The machine is equally fast all the time.
#[test]
fn a_run_that_changes_its_drafter_is_as_fast_as_its_time_says() {
    let by = |name: &str, ms: f64, plain_ms| Step { drafter: Some(name.into()), ..step(5, 3, ms, plain_ms) };
    let mut steps = Vec::new();
    for at in 0..10 {
        steps.push(by("lookup", 12.0, (at % 5 == 0).then_some(10.0)));
    }
    steps.push(Step { switched: Some(Box::default()), ..by("model", 530.0, Some(10.0)) });
    for at in 0..10 {
        steps.push(by("model", 30.0, (at % 5 == 0).then_some(10.0)));
    }
    let pace = Pace::of(&steps);
    let expected = 10.0 * 63.0 / (120.0 + 530.0 + 300.0);
    let ratios = pace.ratios();
    assert_eq!(ratios.len(), 4, "the pass before the change has no other step next to it");
    assert!(ratios.iter().all(|ratio| (ratio - expected).abs() < 1e-9), "{ratios:?}, {expected}");
    let beside = pace.ratio_of_repeat(20.0, &[by("lookup", 24.0, None), by("model", 60.0, None)]).unwrap();
    assert!((beside - expected).abs() < 1e-9, "{beside}");
}

#[test]
fn a_repetition_on_a_slower_machine_gives_the_same_ratio() {
    let pace = Pace::of(&[step(5, 4, 10.0, None), step(5, 2, 12.0, None), step(2, 2, 6.0, None)]);
    let expected = 7.0 * 8.0 / 28.0;
    let again = [step(5, 4, 22.0, Some(14.0)), step(2, 2, 12.0, Some(14.0)), step(9, 1, 1.0, Some(14.0))];
    let ratios = pace.ratios_of_repeat(&again);
    assert_eq!(ratios.len(), 2, "no step of the run had 9 rows");
    // The usual step of 5 rows takes 11 ms, so both are twice as slow.
    assert!(ratios.iter().all(|ratio| (ratio - expected).abs() < 1e-9), "{ratios:?}");
    // Several steps with one pass are one pair.
    let beside = pace.ratio_of_repeat(14.0, &again).unwrap();
    assert!((beside - expected).abs() < 1e-9, "{beside}");
    assert_eq!(pace.ratio_of_repeat(14.0, &again[2..]), None);
}

#[test]
fn the_end_token_is_a_token() {
    let mut pace = Pace::of(&[step(5, 4, 10.0, None), step(5, 0, 10.0, None)]);
    assert_eq!(pace.per_token(), Some(5.0));
    pace.end(StopReason::Eos);
    assert_eq!((pace.tokens(), pace.per_token()), (5, Some(4.0)));
}

#[test]
fn nothing_measured_gives_no_pairs() {
    let ratios = |steps: &[Step]| Pace::of(steps).ratios();
    assert!(ratios(&[]).is_empty());
    assert!(ratios(&[step(3, 0, 5.0, Some(1.0))]).is_empty());
    assert!(ratios(&[step(3, 2, 0.0, Some(1.0))]).is_empty());
    assert!(ratios(&[step(3, 2, 5.0, None)]).is_empty());
    assert_eq!(Pace::default().ratio_of_repeat(1.0, &[step(1, 1, 1.0, None)]), None);
    assert!(Pace::default().ratios_of_repeat(&[step(1, 1, 1.0, Some(1.0))]).is_empty());
}
