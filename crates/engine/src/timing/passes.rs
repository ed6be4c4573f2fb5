//! Speeds of whole passes of a loaded model, measured for their own sake: in a few seconds, without a clip.

use std::{sync::Arc, time::Instant};

use super::{Part, Rate, Rates, probe};
use crate::events::since;
use specreel_model::{
    decoder::{Sequence, Taps},
    family::{ModelError, VideoLlm},
    mac_count,
    processor::Grid,
};
use specreel_record::median;
use specreel_speculate::auto::GUESSED_ROWS;

/// Slots before the rows that are timed.
const CONTEXT: usize = 512;
/// Passes of one kind: at least, and at most; and the time after which no other one begins, in milliseconds.
const LEAST: usize = 3;
const MOST: usize = 12;
const BUDGET_MS: f64 = 600.0;
/// The temporal grid on which towers are timed.
const GRID: Grid = Grid { t: 1, h: 16, w: 16 };

/// Measure a model: its tower, reading a prompt, writing a token. Returns the time of a further row of a pass relative to one alone.
pub(crate) fn learn(model: &VideoLlm, rates: &mut Rates) -> Result<f64, ModelError> {
    let key = |part| super::rates::key(part, model);
    if let Some(rate) = probe::tower(model, GRID)? {
        rates.learn(&key(Part::Tower), rate);
    }
    let passes = Passes::of(model)?;
    for (part, rate) in [(Part::Prompt, passes.prompt(model)), (Part::Token, passes.token(model))] {
        rate.into_iter().for_each(|rate| rates.learn(&key(part), rate));
    }
    Ok(passes.further())
}

/// Times of passes through a whole language model, in milliseconds.
#[derive(Clone, Copy, Debug)]
struct Passes {
    /// Rows of a part of a prompt, and their time.
    chunk: usize,
    chunk_ms: f64,
    /// With logits, after [`CONTEXT`] others: one row, and [`GUESSED_ROWS`].
    one_ms: f64,
    some_ms: f64,
}

impl Passes {
    fn of(model: &VideoLlm) -> Result<Self, ModelError> {
        let decoder = model.decoder();
        let chunk = decoder.chunk().clamp(1, CONTEXT);
        let ids = |rows: usize| -> Vec<u32> {
            (0..rows as u32).map(|id| id % decoder.config().vocab.max(1) as u32).collect()
        };
        let mut sequence = Sequence::new(Arc::clone(decoder), CONTEXT + 2 * chunk);
        let pass = |sequence: &mut Sequence, rows: usize, logits: bool| -> Result<f64, ModelError> {
            let (before, started) = (sequence.len(), Instant::now());
            let pass = sequence.feed(&ids(rows), &Taps::default())?;
            if logits {
                sequence.logits(&pass.states)?.to_vec()?;
            }
            sequence.synchronize()?;
            let ms = since(started);
            sequence.truncate(before);
            Ok(ms)
        };
        // The first pass reads the weights into memory, where the file is mapped.
        pass(&mut sequence, 1, true)?;
        let chunk_ms = pass(&mut sequence, chunk, false)?;
        sequence.feed(&ids(chunk), &Taps::default())?;
        let copy = sequence.fork(chunk, chunk)?;
        while sequence.len() + chunk <= CONTEXT {
            sequence.append(&copy, 0..chunk)?;
        }
        let mut usual = |rows: usize| -> Result<f64, ModelError> {
            let (mut all, started) = (Vec::with_capacity(MOST), Instant::now());
            while all.len() < LEAST || all.len() < MOST && since(started) < BUDGET_MS {
                all.push(pass(&mut sequence, rows, true)?);
            }
            Ok(median(all).unwrap_or_default())
        };
        Ok(Self { chunk, chunk_ms, one_ms: usual(1)?, some_ms: usual(GUESSED_ROWS)? })
    }

    fn prompt(&self, model: &VideoLlm) -> Option<Rate> {
        let work = mac_count::prompt(model.decoder().config(), 0, self.chunk);
        Rate::of(&work, self.chunk_ms, &Rate::unknown(Part::Prompt))
    }

    fn token(&self, model: &VideoLlm) -> Option<Rate> {
        let work = mac_count::token(model.decoder().config(), CONTEXT);
        Rate::of(&work, self.one_ms, &Rate::unknown(Part::Token))
    }

    /// Time of a further row of a pass relative to one alone.
    fn further(&self) -> f64 {
        (self.some_ms / self.one_ms.max(1e-9) - 1.0) / (GUESSED_ROWS - 1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_further_row_is_what_a_longer_pass_takes_more() {
        let passes = Passes { chunk: 128, chunk_ms: 9.0, one_ms: 10.0, some_ms: 18.0 };
        assert!((passes.further() - 0.2).abs() < 1e-12);
    }
}
