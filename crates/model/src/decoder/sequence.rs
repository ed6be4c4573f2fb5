//! A sequence: a decoder with the cache, positions and buffers of one text.

mod blocks;
mod history;
mod slots;
mod staged;

use std::{ops::ControlFlow, sync::Arc};

use specreel_tensor::Result;

use history::History;
pub use staged::Staged;

use super::{
    Cache, Decoder, Input, Logits, Mask, Pass, PassRequest, Positions, States, Taps, Workspace, together,
    with_slice,
};

/// A decoder with the cache of one sequence. Weights are shared, caches are not.
pub struct Sequence {
    decoder: Arc<Decoder>,
    cache: Cache,
    workspace: Workspace,
    /// Position of a text row minus its cache slot: visual tokens take fewer positions than slots, and a sequence with some of
    /// them has positions ahead of its slots.
    offset: i64,
    /// The earlier layers with caches of their own, if they read more rows of the prompt ([`Staged`]); `cache` belongs to the
    /// layers above them.
    below: Vec<staged::Stage>,
    /// What was fed, where a rollback may have to feed some of it again.
    history: Option<History>,
}

impl Sequence {
    /// An empty sequence with `capacity` slots.
    pub fn new(decoder: Arc<Decoder>, capacity: usize) -> Self {
        let cache = decoder.cache(capacity);
        let history = decoder.config().linear.map(|_| History::default());
        Self { decoder, cache, workspace: Workspace::default(), offset: 0, below: Vec::new(), history }
    }

    pub fn decoder(&self) -> &Arc<Decoder> {
        &self.decoder
    }

    /// Cache slots in use.
    pub fn len(&self) -> usize {
        self.cache.len()
    }

    /// True if no slot is in use.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of the cache, and of the rows that are kept to be fed again.
    pub fn bytes(&self) -> usize {
        self.history.as_ref().map_or(0, History::bytes)
            + self.cache.bytes()
            + self.below.iter().map(|stage| stage.cache.bytes()).sum::<usize>()
    }

    /// Bytes that are allocated for `more` slots after those in use, at most.
    pub fn growth(&self, more: usize) -> usize {
        self.cache.growth(more) + self.below.iter().map(|stage| stage.cache.growth(more)).sum::<usize>()
    }

    /// Feed a prompt's embeddings (`rows × width`, or wider with DeepStack levels: see [`Decoder::forward`]) at the given positions; text continues at position `next`. `states` receives
    /// each chunk's first row number and final states (`rows × width`); `progress` (done, total) may stop the prefill, which
    /// then leaves the sequence empty and returns false.
    pub fn prefill(
        &mut self,
        embeddings: &States,
        positions: &Positions,
        next: u32,
        states: &mut dyn FnMut(usize, &[f32]),
        progress: &mut dyn FnMut(usize, usize) -> ControlFlow<()>,
    ) -> Result<bool> {
        self.read(embeddings, positions, &Taps::default(), next, states, progress)
    }

    /// As [`Sequence::prefill`]; `passes` receives each chunk's first row number and the whole pass, with what `taps` ask for.
    /// Fails as [`Sequence::prefill`], and as `passes`.
    pub fn prefill_tapped(
        &mut self,
        embeddings: &States,
        positions: &Positions,
        next: u32,
        taps: &Taps,
        passes: &mut dyn FnMut(usize, &Pass) -> Result<()>,
        progress: &mut dyn FnMut(usize, usize) -> ControlFlow<()>,
    ) -> Result<bool> {
        let whole = self.chunks(embeddings, positions, taps, progress, passes)?;
        self.offset = i64::from(next) - self.len() as i64;
        self.mark();
        Ok(whole)
    }

    /// As [`Sequence::prefill_tapped`], for the final states alone.
    fn read(
        &mut self,
        input: &States,
        positions: &Positions,
        taps: &Taps,
        next: u32,
        states: &mut dyn FnMut(usize, &[f32]),
        progress: &mut dyn FnMut(usize, usize) -> ControlFlow<()>,
    ) -> Result<bool> {
        let passes = &mut |done, pass: &Pass| with_slice(&pass.states, |rows| states(done, rows));
        self.prefill_tapped(input, positions, next, taps, passes, progress)
    }

    fn chunks(
        &mut self,
        embeddings: &States,
        positions: &Positions,
        taps: &Taps,
        progress: &mut dyn FnMut(usize, usize) -> ControlFlow<()>,
        then: &mut dyn FnMut(usize, &Pass) -> Result<()>,
    ) -> Result<bool> {
        self.feed_owed()?;
        let rows = embeddings.rows();
        // The second part of a prefill reads the first part's states of rows that are recorded already.
        let first_part = taps.layers.as_ref().is_none_or(|layers| layers.start == 0);
        if let Some(history) = self.history.as_mut().filter(|_| first_part) {
            history.record_rows(embeddings, positions);
        }
        let mut done = 0;
        while done < rows {
            if progress(done, rows).is_break() {
                self.truncate(0);
                return Ok(false);
            }
            let n = self.decoder.chunk().min(rows - done);
            if n == rows - done && first_part {
                // A prompt's last rows are often replaced: the state before them is kept. In the second part of a prefill the
                // layers of the first one are at its end already.
                self.cache.mark();
            }
            let input = embeddings.narrow(done, n)?;
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

    /// The first of two parts of a prefill: feed a prompt's embeddings through the first `layers` layers. Returns the states
    /// after them, `rows × width`, followed by the DeepStack levels of later layers; `None` if `progress` stopped it. The
    /// sequence cannot be used before the second part.
    pub fn prefill_below(
        &mut self,
        embeddings: &States,
        positions: &Positions,
        layers: usize,
        progress: &mut dyn FnMut(usize, usize) -> ControlFlow<()>,
    ) -> Result<Option<States>> {
        let taps = Taps { before_norm: true, layers: Some(0..layers), ..Taps::default() };
        let mut states = Vec::new();
        let (decoder, width) = (self.decoder.clone(), embeddings.shape().1);
        let rest = decoder.config().carried(0, layers);
        let whole = self.chunks(embeddings, positions, &taps, progress, &mut |done, pass| {
            let Some(below) = &pass.before_norm else { return Ok(()) };
            states.push(match !rest.is_empty() && width >= rest.end {
                false => below.clone(),
                true => {
                    let rows = embeddings.narrow(done, below.rows())?;
                    decoder.beside(below, &rows.columns(rest.clone())?)?
                }
            });
            Ok(())
        })?;
        self.cache.truncate(0);
        whole.then(|| States::cat(&states)).transpose()
    }

    /// The second part: the layers from `layers` on, from the states that [`Sequence::prefill_below`] returned. On the CPU the
    /// cache is afterwards bit-identical to the cache after [`Sequence::prefill`].
    pub fn prefill_above(
        &mut self,
        below: &States,
        positions: &Positions,
        layers: usize,
        next: u32,
        states: &mut dyn FnMut(usize, &[f32]),
        progress: &mut dyn FnMut(usize, usize) -> ControlFlow<()>,
    ) -> Result<bool> {
        let taps = Taps { layers: Some(layers..self.decoder.config().layers), ..Taps::default() };
        self.read(below, positions, &taps, next, states, progress)
    }

    /// Append text ids as a chain. Fails if an id is outside of the vocabulary.
    pub fn feed(&mut self, ids: &[u32], taps: &Taps) -> Result<Pass> {
        self.feed_input(ids, taps)
    }

    /// As [`Sequence::feed`], perhaps with input rows (`rows × width`) in place of ids. Fails if the input has another width.
    pub fn feed_input<'a>(&mut self, input: impl Into<Input<'a>>, taps: &Taps) -> Result<Pass> {
        let input = input.into();
        let positions = Positions::text(self.position(self.len()), input.rows());
        self.feed_at(input, &positions, &Mask::Causal, taps)
    }

    /// Append text ids as nodes of a tree whose root is at slot `base`: node `r` has depth `depths[r]` (the root's is 0) and sees
    /// the slots before `base` and the slots of `paths[r]`, counted from `base`.
    pub fn feed_tree(
        &mut self,
        ids: &[u32],
        base: usize,
        depths: &[usize],
        paths: Vec<Vec<usize>>,
        taps: &Taps,
    ) -> Result<Pass> {
        self.feed_tree_input(ids, base, depths, paths, taps)
    }

    /// As [`Sequence::feed_tree`], perhaps with input rows (`rows × width`) in place of ids.
    pub fn feed_tree_input<'a>(
        &mut self,
        input: impl Into<Input<'a>>,
        base: usize,
        depths: &[usize],
        paths: Vec<Vec<usize>>,
        taps: &Taps,
    ) -> Result<Pass> {
        let root = self.position(base);
        let axis: Vec<u32> = depths.iter().map(|&depth| root + depth as u32).collect();
        let positions = Positions { axes: [axis.clone(), axis.clone(), axis] };
        self.feed_at(input.into(), &positions, &Mask::Paths { shared: base, paths }, taps)
    }

    fn feed_at(&mut self, input: Input<'_>, positions: &Positions, mask: &Mask, taps: &Taps) -> Result<Pass> {
        self.feed_owed()?;
        if let Some(history) = &mut self.history {
            history.record(input, positions);
        }
        let pass = self.feed_new(input, positions, mask, taps);
        if let (Err(_), Some(history)) = (&pass, &mut self.history) {
            history.truncate(self.cache.len());
        }
        pass
    }

    fn feed_new(
        &mut self,
        input: Input<'_>,
        positions: &Positions,
        mask: &Mask,
        taps: &Taps,
    ) -> Result<Pass> {
        if self.below.is_empty() {
            let request = PassRequest { input, positions, mask, cache: &mut self.cache, taps };
            return together::pass(&self.decoder, request, &mut self.workspace);
        }
        let (slots, workspace) = (self.cache.len(), &mut self.workspace);
        let above = staged::climb(&mut self.below, input, positions, mask, slots, workspace, &self.decoder)?;
        let first = self.below.last().map_or(0, staged::Stage::end);
        let taps = Taps { layers: Some(first..self.decoder.config().layers), ..taps.clone() };
        let input = above.as_ref().map_or(input, Input::States);
        self.decoder.forward(input, positions, mask, &mut self.cache, &taps, &mut self.workspace)
    }

    /// Run rows (`rows × width`) of an assistant over the keys and values of this sequence, all at the position of the token after it
    /// (see [`DeviceDecoder::assist`](super::DeviceDecoder::assist)). Fails also if the layers of this sequence have read different
    /// rows.
    pub fn assist(&mut self, assistant: &Decoder, rows: &States, workspace: &mut Workspace) -> Result<Pass> {
        if !self.below.is_empty() {
            specreel_tensor::bail!("an assistant cannot read keys and values of a pruned target");
        }
        assistant.assist(rows, self.position(self.len()), &mut self.cache, workspace)
    }

    fn position(&self, slot: usize) -> u32 {
        (slot as i64 + self.offset).max(0) as u32
    }

    /// What its operations are computed in. What else is computed in it runs before its next pass.
    pub fn workspace(&mut self) -> &mut Workspace {
        &mut self.workspace
    }

    /// Logits (`rows × vocab`) of final states. Fails if the states have another width.
    pub fn logits(&mut self, states: &States) -> Result<Logits> {
        together::logits(&self.decoder, states, &mut self.workspace)
    }

    /// Wait until all queued work is done.
    pub fn synchronize(&mut self) -> Result<()> {
        self.decoder.synchronize(&mut self.workspace)
    }
}

#[cfg(test)]
mod hybrid_tests;
