//! The share of the visual tokens that pays off for a drafter: a smaller one is read sooner and makes every draft cheaper, a larger
//! one lets more drafts pass.

use super::best_length;

/// The shares that are considered.
pub const SHARES: [f64; 6] = [0.0, 0.05, 0.1, 0.25, 0.5, 1.0];

/// The chance that a draft passes, of a drafter of which nothing is known but that it sees everything.
const CHANCE: f64 = 0.75;
/// How often drafts of a drafter that sees no visual token fail, relative to one that sees all: 3.5 times on the embedded pair.
const BLIND: f64 = 2.5;
/// The same with a tenth of them: 1.7 times on the embedded pair, 1.0 to 1.3 times in SpecVLM's Table 1.
const TENTH: f64 = 1.3;
/// Time of a further row of a verify pass relative to the first one.
const FURTHER_ROW: f64 = 0.25;

/// What a drafter that sees a share of the visual tokens takes, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShareCost {
    pub share: f64,
    /// Before the first token: the drafter's tower and prompt.
    pub front_ms: f64,
    /// A pass of one row.
    pub row_ms: f64,
}

/// The share with the least time from now to the last of `tokens`; `row_ms` is the time of a target row. `known` has chances that a
/// draft passes, measured with some of the shares. `None` without costs.
pub fn best_share(costs: &[ShareCost], tokens: usize, row_ms: f64, known: &[(f64, f64)]) -> Option<f64> {
    let whole_ms = |cost: &ShareCost| {
        let chance = chance(cost.share, known);
        cost.front_ms + tokens as f64 / best_length(chance, cost.row_ms, row_ms, FURTHER_ROW * row_ms).1
    };
    let best = costs.iter().min_by(|a, b| whole_ms(a).total_cmp(&whole_ms(b)))?;
    Some(best.share)
}

/// The chance that a draft passes: as measured, or from what was measured with the share in which drafts fail most alike.
fn chance(share: f64, known: &[(f64, f64)]) -> f64 {
    let factor = failures(share);
    let apart = |other: f64| (failures(other) / factor).ln().abs();
    let nearest = known.iter().min_by(|a, b| apart(a.0).total_cmp(&apart(b.0)));
    let (other, measured) = nearest.copied().unwrap_or((1.0, CHANCE));
    (1.0 - (1.0 - measured) * factor / failures(other)).clamp(0.0, 0.995)
}

/// How often drafts fail relative to those of a drafter that sees everything: straight in the logarithm of the share, as far as
/// [`BLIND`].
fn failures(share: f64) -> f64 {
    match share > 0.0 {
        true => (1.0 + (TENTH - 1.0) * -share.log10()).min(BLIND),
        false => BLIND,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A drafter whose tower takes `tower_ms`, prompt `read_ms` and row `row_ms`, the latter two with all visual tokens; without any,
    /// a hundredth of `read_ms` and half of `row_ms`.
    fn costs(tower_ms: f64, read_ms: f64, row_ms: f64) -> Vec<ShareCost> {
        let cost = |share: f64| ShareCost {
            share,
            front_ms: read_ms * share.max(0.01) + if share > 0.0 { tower_ms } else { 0.0 },
            row_ms: row_ms * (0.5 + share / 2.0),
        };
        SHARES.into_iter().map(cost).collect()
    }

    #[test]
    fn the_longer_the_prompt_the_smaller_the_share_and_the_longer_the_text_the_larger() {
        let best = |read_ms, tokens, known: &[_]| {
            best_share(&costs(0.0, read_ms, 10.0), tokens, 100.0, known).unwrap()
        };
        let by_prompt = [1.0, 1e3, 1e4, 1e5, 1e7].map(|read_ms| best(read_ms, 200, &[]));
        assert!(by_prompt.windows(2).all(|two| two[0] >= two[1]), "{by_prompt:?}");
        assert!(by_prompt[0] >= 0.5 && by_prompt[4] == 0.0, "{by_prompt:?}");
        let by_length = [1, 10, 100, 1000, 100_000].map(|tokens| best(1e4, tokens, &[]));
        assert!(by_length.windows(2).all(|two| two[0] <= two[1]), "{by_length:?}");
        assert!(by_length[0] == 0.0 && by_length[4] >= 0.5, "{by_length:?}");
        // What was measured counts: a drafter that needs nothing of the video is given nothing, one that fails without all is given all.
        assert_eq!(best(1e4, 200, &[(0.0, 0.9), (0.1, 0.9), (1.0, 0.9)]), 0.0);
        let needy = SHARES.map(|share| (share, if share < 1.0 { 0.05 } else { 0.9 }));
        assert_eq!([100, 1000].map(|tokens| best(1e4, tokens, &needy)), [0.0, 1.0]);
        assert_eq!(best_share(&[], 10, 100.0, &[]), None);
    }

    #[test]
    fn a_tower_that_takes_longer_than_drafting_saves_is_left_out() {
        let best = |tower_ms| best_share(&costs(tower_ms, 1.0, 10.0), 100, 100.0, &[]).unwrap();
        assert!(best(1.0) > 0.0);
        assert_eq!(best(1e5), 0.0);
    }

    #[test]
    fn chances_fall_with_the_share_and_follow_what_was_measured() {
        for known in [&[][..], &[(0.1, 0.6)], &[(1.0, 0.9)], &[(0.0, 0.2)]] {
            let chances = SHARES.map(|share| chance(share, known));
            assert!(chances.windows(2).all(|two| two[0] <= two[1]), "{known:?}: {chances:?}");
            for (share, measured) in known {
                assert!((chance(*share, known) - measured).abs() < 1e-12, "{known:?}");
            }
        }
        assert!((chance(0.25, &[(0.1, 0.2), (1.0, 0.9)]) - 0.2).abs() < 0.2, "the nearer one counts");
        for measured in [0.0, 1.0, f64::NAN] {
            assert!((0.0..1.0).contains(&chance(0.0, &[(1.0, measured)])) || measured.is_nan());
        }
    }
}
