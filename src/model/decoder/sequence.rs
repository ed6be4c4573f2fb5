//! One sequence being written by one decoder: its cache, its positions, its buffers.

use std::{ops::ControlFlow, sync::Arc};

use candle_core::{Result, Tensor};

use super::{Cache, Decoder, Mask, Pass, Positions, Taps, Workspace, with_slice};

/// Rows of a prefill that are computed between two looks at the progress callback.
const CHUNK: usize = 128;

/// A decoder with the cache of one sequence. Weights are shared, caches are not.
pub struct Sequence {
    decoder: Arc<Decoder>,
    cache: Cache,
    workspace: Workspace,
    /// Position of a text row minus its cache slot: visual tokens take fewer positions than slots, and a sequence that was
    /// given a part of them has positions ahead of its slots.
    offset: i64,
}

impl Sequence {
    /// An empty sequence with room for `capacity` slots.
    pub fn new(decoder: Arc<Decoder>, capacity: usize) -> Self {
        let cache = decoder.cache(capacity);
        Self { decoder, cache, workspace: Workspace::default(), offset: 0 }
    }

    /// The decoder.
    pub fn decoder(&self) -> &Arc<Decoder> {
        &self.decoder
    }

    /// Cache slots in use.
    pub fn len(&self) -> usize {
        self.cache.len()
    }

    /// True if nothing was fed yet.
    pub fn is_empty(&self) -> bool {
        self.cache.is_empty()
    }

    /// Bytes of the cache.
    pub fn bytes(&self) -> usize {
        self.cache.bytes()
    }

    /// Feed a prompt's embeddings (`rows × width`) at the given positions; text goes on at position `next`. `states` receives
    /// each chunk's first row number and final states (`rows × width`), `progress` (done, total) may stop the work.
    ///
    /// # Errors
    /// If shapes do not agree. A stopped prefill leaves the sequence empty and returns false.
    pub fn prefill(
        &mut self,
        embeddings: &Tensor,
        positions: &Positions,
        next: u32,
        states: &mut dyn FnMut(usize, &[f32]),
        progress: &mut dyn FnMut(usize, usize) -> ControlFlow<()>,
    ) -> Result<bool> {
        let rows = embeddings.dim(0)?;
        let mut done = 0;
        while done < rows {
            if progress(done, rows).is_break() {
                self.cache.truncate(0);
                return Ok(false);
            }
            let n = CHUNK.min(rows - done);
            let input = embeddings.narrow(0, done, n)?;
            let at = positions.slice(done..done + n);
            let pass = self.decoder.forward(
                &input,
                &at,
                &Mask::Causal,
                &mut self.cache,
                &Taps::default(),
                &mut self.workspace,
            )?;
            with_slice(&pass.states, |s| states(done, s))?;
            done += n;
        }
        self.offset = i64::from(next) - self.cache.len() as i64;
        let _ = progress(rows, rows);
        Ok(true)
    }

    /// Feed text ids as a chain after what is there.
    ///
    /// # Errors
    /// If an id is outside of the embeddings.
    pub fn feed(&mut self, ids: &[u32], taps: &Taps) -> Result<Pass> {
        let input = self.decoder.embed(ids)?;
        let start = (self.cache.len() as i64 + self.offset).max(0) as u32;
        let positions = Positions::text(start, ids.len());
        self.decoder.forward(&input, &positions, &Mask::Causal, &mut self.cache, taps, &mut self.workspace)
    }

    /// Logits (`rows × vocab`) of final states.
    ///
    /// # Errors
    /// If the states have another width.
    pub fn logits(&mut self, states: &Tensor) -> Result<Tensor> {
        self.decoder.logits(states, &mut self.workspace)
    }

    /// Forget all slots from `len` on.
    pub fn truncate(&mut self, len: usize) {
        self.cache.truncate(len);
    }
}
