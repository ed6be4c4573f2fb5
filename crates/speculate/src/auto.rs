//! What pays off, from measured times and acceptance: who drafts, how much of the video a drafter reads, and where a chain ends.

mod choice;
mod length;
mod places;
mod turns;

pub use crate::confidence::{CLASSES, Calibration, Stopping};
pub(crate) use crate::fit::Place;
pub use choice::{
    Contender, DraftCost, SHARES, USUAL_TOKENS, chance_at, failing_at, tokens_left, usual_chance,
};
pub use length::LONGEST;
pub(crate) use places::places;
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
