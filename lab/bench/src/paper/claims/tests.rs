use super::*;

fn figure(low: f64, high: f64) -> Figure {
    let rounds = (0..100).map(|n| low + (high - low) * f64::from(n) / 99.0).collect();
    Figure::new((low + high) / 2.0, rounds)
}

#[test]
fn every_claim_names_rows_that_are_there() {
    let judged = judge(&[]).unwrap();
    assert!(judged.len() >= 25, "{}", judged.len());
    for claim in &judged {
        // Nothing was measured.
        assert_eq!(claim.verdict, Verdict::NotTestable);
        assert!(claim.claim.says.ends_with('.') && claim.claim.found.ends_with('.'), "{claim:?}");
        // Figures are in the table, which is generated: in a sentence they would go stale.
        let digits = |word: &str| {
            word.trim_end_matches('.')
                .split_once('.')
                .is_some_and(|(a, _)| a.ends_with(|c: char| c.is_ascii_digit()))
        };
        let found = &claim.claim.found;
        assert!(!found.contains('%') && !found.split_whitespace().any(digits), "{found}");
        let effect = claim.claim.effect.as_ref();
        assert_eq!(effect.is_some(), claim.claim.untestable.is_empty(), "{claim:?}");
        let Some(effect) = effect else { continue };
        let gains =
            effect.kind != Kind::Gain || !effect.claimed.is_empty() || claim.theirs.as_str() > "x 1.0";
        assert!(gains && (effect.over.is_empty() || effect.curve.is_empty()), "{claim:?}");
    }
}

#[test]
fn a_verdict_needs_its_whole_interval_beyond_the_threshold() {
    use Verdict::{Not, Opposite, Partly, Reproduced};
    for (kind, paper, low, high, verdict) in [
        (Kind::Gain, Some(2.0), 1.8, 2.2, Reproduced),
        // The square root of 2 is half of the effect; the value alone does not decide.
        (Kind::Gain, Some(2.0), 1.43, 1.5, Reproduced),
        (Kind::Gain, Some(2.0), 1.38, 1.5, Partly),
        (Kind::Gain, Some(2.0), 1.1, 1.3, Partly),
        (Kind::Gain, Some(2.0), 1.02, 1.3, Not),
        (Kind::Gain, Some(2.0), 0.9, 2.9, Not),
        (Kind::Gain, Some(2.0), 0.5, 0.6, Opposite),
        (Kind::Gain, None, 1.03, 1.2, Reproduced),
        (Kind::Gain, None, 1.01, 1.2, Partly),
        (Kind::Gain, None, 0.9, 1.2, Not),
        (Kind::Gain, None, 0.8, 0.9, Opposite),
        (Kind::Holds, Some(0.99), 0.95, 0.99, Reproduced),
        (Kind::Holds, Some(0.99), 0.90, 0.96, Not),
        (Kind::Holds, Some(0.99), 0.80, 0.90, Not),
    ] {
        // Intervals cut 2.5 % on either side.
        assert_eq!(kind.verdict(paper, &figure(low, high)), verdict, "{kind:?} {low} {high}");
    }
    assert_eq!(Kind::Gain.verdict(Some(2.0), &Figure::new(3.0, Vec::new())), Not);
}

#[test]
fn several_drafters_have_one_verdict() {
    use Verdict::{Not, NotTestable, Opposite, Partly, Reproduced};
    for (verdicts, joined) in [
        (&[][..], NotTestable),
        (&[Reproduced, Reproduced], Reproduced),
        (&[Reproduced, Partly], Partly),
        (&[Reproduced, Opposite], Partly),
        (&[Not, Opposite], Not),
        (&[Opposite, Opposite], Opposite),
    ] {
        assert_eq!(Verdict::joined(verdicts), joined, "{verdicts:?}");
    }
}
