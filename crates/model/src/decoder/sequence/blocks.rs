//! Passes of a model that drafts a block of tokens at once, on keys and values that were injected.

use std::ops::{ControlFlow, Range};

use specreel_tensor::Result;

use super::{Input, Mask, Pass, Positions, Sequence, States, Taps};

impl Sequence {
    /// Append rows that are no tokens at the given positions: see
    /// [`DeviceDecoder::inject`](crate::decoder::DeviceDecoder::inject). Text continues at position `next`. `progress` (done, total)
    /// may stop it, which leaves the sequence empty and returns false.
    pub fn inject_prompt(
        &mut self,
        rows: &States,
        positions: &Positions,
        next: u32,
        progress: &mut dyn FnMut(usize, usize) -> ControlFlow<()>,
    ) -> Result<bool> {
        let (count, chunk) = (rows.rows(), self.decoder.chunk());
        for first in (0..count).step_by(chunk) {
            if progress(first, count).is_break() {
                self.truncate(0);
                return Ok(false);
            }
            let part = first..count.min(first + chunk);
            let at = positions.slice(part.clone());
            let rows = rows.narrow(first, part.len())?;
            self.decoder.inject(&rows, &at, &mut self.cache, &mut self.workspace)?;
        }
        self.offset = i64::from(next) - self.len() as i64;
        let _ = progress(count, count);
        Ok(true)
    }

    /// Append rows that are no tokens at the next text positions.
    pub fn inject(&mut self, rows: &States) -> Result<()> {
        let positions = Positions::text(self.position(self.len()), rows.rows());
        self.decoder.inject(rows, &positions, &mut self.cache, &mut self.workspace)
    }

    /// Run a block of ids through runs of layers that follow each other from the first one on, each with the mask of its rows.
    /// Nothing is appended. Fails if an id is outside of the vocabulary, or the runs are not all layers.
    pub fn feed_block(&mut self, ids: &[u32], runs: &[(Range<usize>, Mask)]) -> Result<Pass> {
        let (before, layers) = (self.len(), self.decoder.config().layers);
        let positions = Positions::text(self.position(before), ids.len());
        let mut states: Option<States> = None;
        for (run, mask) in runs {
            let taps = Taps { before_norm: run.end < layers, layers: Some(run.clone()), ..Taps::default() };
            let input = states.as_ref().map_or(Input::Ids(ids), Input::States);
            let pass =
                self.decoder.forward(input, &positions, mask, &mut self.cache, &taps, &mut self.workspace);
            self.cache.truncate(before);
            let pass = pass?;
            if run.end == layers {
                return Ok(pass);
            }
            states = pass.before_norm;
        }
        specreel_tensor::bail!("a block of {layers} layers got runs up to {:?}", runs.last())
    }
}
