//! What pays off, from measured times and acceptance: who drafts, how much of the video a drafter reads, and the length of a chain or
//! the form of a tree.

mod choice;
mod length;
mod shape;
mod turns;

pub(crate) use crate::fit::Place;
pub use crate::fit::RANKS;
pub use choice::{Contender, DraftCost, SHARES, USUAL_TOKENS, chance_at, tokens_left, usual_chance};
pub(crate) use length::Drafts;
pub use length::LONGEST;
pub(crate) use shape::places;
use specreel_model::decoder::Decoder;
pub(crate) use turns::AutoDraft;

/// Rows of the longer of two passes that are guessed.
const GUESSED_ROWS: usize = 5;

/// Time of a further row of the target's pass relative to the first one, before passes have been measured: a quarter or, in a
/// mixture of experts, what the pass reads more.
pub fn further_row(target: &Decoder) -> f64 {
    let bytes = target.pass_bytes(GUESSED_ROWS) as f64 / target.matrix_bytes().max(1) as f64;
    (bytes.max(2.0) - 1.0) / (GUESSED_ROWS - 1) as f64
}

/// The chain length up to `longest` with the most tokens per millisecond, and that rate: a step with K drafts costs `K · drafter_ms +
/// first_ms + K · more_ms` and gives `1 + a + a² + … + a^K` tokens on average, where `a` is the `chance` that a draft passes once those before it have.
fn best_length(longest: usize, chance: f64, drafter_ms: f64, first_ms: f64, more_ms: f64) -> (usize, f64) {
    let (mut emitted, mut term) = (0.0, 1.0);
    let mut best = (0, f64::NEG_INFINITY);
    for k in 0..=longest {
        emitted += term;
        term *= chance;
        let rate = emitted / (k as f64 * (drafter_ms + more_ms) + first_ms).max(1e-9);
        if rate > best.1 {
            best = (k, rate);
        }
    }
    best
}
