//! What pays off, from measured times and acceptance: who drafts, how much of the video a drafter reads, and the length of a chain or
//! the form of a tree.

mod choice;
mod length;
mod shape;
mod turns;

pub use crate::confidence::{CLASSES, Calibration, Stopping};
pub(crate) use crate::fit::Place;
pub use crate::fit::RANKS;
pub use choice::{
    Contender, DraftCost, SHARES, USUAL_TOKENS, chance_at, failing_at, tokens_left, usual_chance,
};
pub(crate) use length::Drafts;
pub use length::LONGEST;
pub(crate) use shape::places;
use specreel_model::decoder::Decoder;
pub(crate) use turns::{AutoDraft, Seen};

/// Rows of the longer of two passes that are guessed.
pub const GUESSED_ROWS: usize = 5;

/// Time of a further row of the target's pass relative to the first one, before passes have been measured: a quarter or, in a
/// mixture of experts, what the pass reads more.
pub fn further_row(target: &Decoder) -> f64 {
    further_by_bytes(target.matrix_bytes(), target.pass_bytes(GUESSED_ROWS))
}

/// The same for a target of which passes of one row, and of [`GUESSED_ROWS`], read so many bytes.
pub fn further_by_bytes(one: usize, guessed: usize) -> f64 {
    let bytes = guessed as f64 / one.max(1) as f64;
    (bytes.max(2.0) - 1.0) / (GUESSED_ROWS - 1) as f64
}

/// Share of the best rate that a shorter chain has to reach. The chance and the times are estimates, and where the best one is hardly
/// better, the shorter one loses less if they are too high.
const NEARLY: f64 = 0.98;

/// The chain length up to `longest` with the most tokens per millisecond, or the shortest one that has nearly as many, and the most
/// tokens per millisecond: a step with K drafts costs `K · drafter_ms + first_ms + K · more_ms` and gives `1 + a + a² + … + a^K` tokens
/// on average, where `a` is the `chance` that a draft passes once those before it have.
fn best_length(longest: usize, chance: f64, drafter_ms: f64, first_ms: f64, more_ms: f64) -> (usize, f64) {
    let rates = || {
        let (mut emitted, mut term) = (0.0, 1.0);
        (0..=longest).map(move |k| {
            emitted += term;
            term *= chance;
            emitted / (k as f64 * (drafter_ms + more_ms) + first_ms).max(1e-9)
        })
    };
    let mut best = f64::NEG_INFINITY;
    for rate in rates() {
        // It rises to one peak and falls from there on.
        if rate < best {
            break;
        }
        best = rate;
    }
    (rates().position(|rate| rate >= NEARLY * best).unwrap_or(0), best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_chain_that_is_nearly_the_best_is_drafted() {
        for (chance, drafter, first, more) in [
            (0.88_f64, 0.03, 0.17, 0.066),
            (0.97, 0.03, 0.17, 0.066),
            (0.5, 0.1, 1.0, 0.1),
            (0.995, 0.01, 1.0, 0.01),
        ] {
            let rate = |k: usize| {
                let emitted: f64 = (0..=k).map(|at| chance.powi(at as i32)).sum();
                emitted / (first + k as f64 * (drafter + more))
            };
            let (length, best) = best_length(24, chance, drafter, first, more);
            let all: Vec<f64> = (0..=24).map(rate).collect();
            assert!((all.iter().copied().fold(0.0, f64::max) - best).abs() < 1e-9, "{all:?}");
            assert!(rate(length) >= NEARLY * best && all[..length].iter().all(|rate| *rate < NEARLY * best));
        }
        // A gain of one in a hundred is none.
        assert_eq!(best_length(24, 0.71, 0.1, 1.0, 0.6).0, 0);
    }
}
