//! One sequence being written by one decoder: its cache, its positions, its buffers.

use std::{ops::ControlFlow, sync::Arc};

use candle_core::{Result, Tensor};

use super::{Cache, Decoder, Mask, Pass, Positions, Taps, Workspace, with_slice};

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
        self.read(embeddings, positions, &Taps::default(), next, states, progress)
    }

    fn read(
        &mut self,
        input: &Tensor,
        positions: &Positions,
        taps: &Taps,
        next: u32,
        states: &mut dyn FnMut(usize, &[f32]),
        progress: &mut dyn FnMut(usize, usize) -> ControlFlow<()>,
    ) -> Result<bool> {
        let whole = self.chunks(input, positions, taps, progress, &mut |done, pass| {
            with_slice(&pass.states, |s| states(done, s))
        })?;
        self.offset = i64::from(next) - self.cache.len() as i64;
        Ok(whole)
    }

    fn chunks(
        &mut self,
        embeddings: &Tensor,
        positions: &Positions,
        taps: &Taps,
        progress: &mut dyn FnMut(usize, usize) -> ControlFlow<()>,
        then: &mut dyn FnMut(usize, &Pass) -> Result<()>,
    ) -> Result<bool> {
        let rows = embeddings.dim(0)?;
        let mut done = 0;
        while done < rows {
            if progress(done, rows).is_break() {
                self.cache.truncate(0);
                return Ok(false);
            }
            let n = self.decoder.chunk().min(rows - done);
            let input = embeddings.narrow(0, done, n)?;
            let at = positions.slice(done..done + n);
            let pass = self.decoder.forward(
                &input,
                &at,
                &Mask::Causal,
                &mut self.cache,
                taps,
                &mut self.workspace,
            )?;
            then(done, &pass)?;
            done += n;
        }
        let _ = progress(rows, rows);
        Ok(true)
    }

    /// The first of two parts of a prefill: feed a prompt's embeddings through the first `layers` layers. Gives the states
    /// there, `rows × width`; none if `progress` stopped the work. The sequence is of no use before the second part.
    ///
    /// # Errors
    /// As [`Sequence::prefill`].
    pub fn prefill_below(
        &mut self,
        embeddings: &Tensor,
        positions: &Positions,
        layers: usize,
        progress: &mut dyn FnMut(usize, usize) -> ControlFlow<()>,
    ) -> Result<Option<Tensor>> {
        let taps = Taps { before_norm: true, layers: Some(0..layers), ..Taps::default() };
        let mut states = Vec::new();
        let whole = self.chunks(embeddings, positions, &taps, progress, &mut |_, pass| {
            states.extend(pass.before_norm.clone());
            Ok(())
        })?;
        self.cache.truncate(0);
        whole.then(|| Tensor::cat(&states, 0)).transpose()
    }

    /// The second part: the layers from `layers` on, from the states that [`Sequence::prefill_below`] gave. What is in the
    /// cache afterwards is what [`Sequence::prefill`] would have left, to the last bit.
    ///
    /// # Errors
    /// As [`Sequence::prefill`].
    pub fn prefill_above(
        &mut self,
        below: &Tensor,
        positions: &Positions,
        layers: usize,
        next: u32,
        states: &mut dyn FnMut(usize, &[f32]),
        progress: &mut dyn FnMut(usize, usize) -> ControlFlow<()>,
    ) -> Result<bool> {
        let taps = Taps { layers: Some(layers..self.decoder.config().layers), ..Taps::default() };
        self.read(below, positions, &taps, next, states, progress)
    }

    /// Feed text ids as a chain after what is there.
    ///
    /// # Errors
    /// If an id is outside of the embeddings.
    pub fn feed(&mut self, ids: &[u32], taps: &Taps) -> Result<Pass> {
        let input = self.decoder.embed(ids)?;
        self.feed_input(&input, taps)
    }

    /// As [`Sequence::feed`], of input rows in place of ids: `rows × width`.
    ///
    /// # Errors
    /// If the input has another width.
    pub fn feed_input(&mut self, input: &Tensor, taps: &Taps) -> Result<Pass> {
        let positions = Positions::text(self.position(self.cache.len()), input.dim(0)?);
        self.feed_at(input, &positions, &Mask::Causal, taps)
    }

    /// Feed text ids as nodes of a tree whose root stands after the first `base` slots: node `r` at `depths[r]` below it (the
    /// root's own is 0), seeing those slots and `paths[r]`, counted from `base`.
    ///
    /// # Errors
    /// As [`Sequence::feed`].
    pub fn feed_tree(
        &mut self,
        ids: &[u32],
        base: usize,
        depths: &[usize],
        paths: Vec<Vec<usize>>,
        taps: &Taps,
    ) -> Result<Pass> {
        let input = self.decoder.embed(ids)?;
        self.feed_tree_input(&input, base, depths, paths, taps)
    }

    /// As [`Sequence::feed_tree`], of input rows in place of ids: `rows × width`.
    ///
    /// # Errors
    /// As [`Sequence::feed_input`].
    pub fn feed_tree_input(
        &mut self,
        input: &Tensor,
        base: usize,
        depths: &[usize],
        paths: Vec<Vec<usize>>,
        taps: &Taps,
    ) -> Result<Pass> {
        let root = self.position(base);
        let line: Vec<u32> = depths.iter().map(|&depth| root + depth as u32).collect();
        let positions = Positions { axes: [line.clone(), line.clone(), line] };
        self.feed_at(input, &positions, &Mask::Paths { shared: base, paths }, taps)
    }

    fn feed_at(&mut self, input: &Tensor, positions: &Positions, mask: &Mask, taps: &Taps) -> Result<Pass> {
        self.decoder.forward(input, positions, mask, &mut self.cache, taps, &mut self.workspace)
    }

    /// Position of a text row in this slot.
    fn position(&self, slot: usize) -> u32 {
        (slot as i64 + self.offset).max(0) as u32
    }

    /// A sequence of the same model's first layers, holding what this one holds; the weights are shared.
    pub fn first_layers(&self, layers: usize) -> Self {
        let decoder = Arc::new(self.decoder.first_layers(layers));
        let cache = self.cache.first_layers(decoder.config().layers);
        Self { decoder, cache, workspace: Workspace::default(), offset: self.offset }
    }

    /// A sequence of the same model that holds a part of this one's slots, in each layer and key head its own: see
    /// [`Cache::gather`]. Text goes on at the same position.
    pub fn gather<'a>(
        &self,
        len: usize,
        capacity: usize,
        kept: impl Fn(usize, usize) -> &'a [usize],
    ) -> Self {
        let cache = self.cache.gather(len, capacity, kept);
        let offset = self.offset + self.cache.len() as i64 - len as i64;
        Self { decoder: self.decoder.clone(), cache, workspace: Workspace::default(), offset }
    }

    /// A sequence of the same model that begins as this one does: with its first `len` slots, and room for `capacity`. Text
    /// goes on as it did here.
    pub fn fork(&self, len: usize, capacity: usize) -> Self {
        let mut fork = Self::new(self.decoder.clone(), capacity.max(len));
        fork.cache.append(&self.cache, 0..len);
        fork.offset = self.offset;
        fork
    }

    /// Take over the slots `range` of another sequence of the same model, keys, values and all.
    pub fn append(&mut self, other: &Sequence, range: std::ops::Range<usize>) {
        self.cache.append(&other.cache, range);
    }

    /// Of the slots from `base` on keep `rows`: see [`Cache::keep`].
    pub fn keep(&mut self, base: usize, rows: &[usize]) {
        self.cache.keep(base, rows);
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
