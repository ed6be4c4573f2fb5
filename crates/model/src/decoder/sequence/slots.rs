//! The slots of a sequence: dropped, compacted, copied.

use std::{ops::Range, sync::Arc};

use specreel_tensor::Result;

use super::{Mask, Sequence, Taps, Workspace};

impl Sequence {
    /// This sequence in the same model's first layers; the weights are shared.
    pub fn first_layers(&self, layers: usize) -> Self {
        let decoder = Arc::new(self.decoder.first_layers(layers));
        let cache = self.cache.first_layers(decoder.config());
        Self {
            decoder,
            cache,
            workspace: Workspace::default(),
            offset: self.offset,
            below: Vec::new(),
            history: self.history.clone(),
        }
    }

    /// A sequence of the same model with some of this one's slots, chosen for each layer and key head: see [`Cache::gather`](crate::decoder::SequenceCache::gather).
    /// Text continues at the same position.
    pub fn gather<'a>(
        &self,
        len: usize,
        capacity: usize,
        kept: impl Fn(usize, usize) -> &'a [usize],
    ) -> Self {
        let cache = self.cache.gather(len, capacity, &kept);
        let offset = self.offset + self.cache.len() as i64 - len as i64;
        Self {
            decoder: self.decoder.clone(),
            cache,
            workspace: Workspace::default(),
            offset,
            below: Vec::new(),
            // Its slots are not rows that could be fed again.
            history: None,
        }
    }

    /// A sequence of the same model with the first `len` slots of this one, and `capacity` slots in total. Text continues as
    /// here. Fails if there are fewer slots, or the device's memory does not suffice.
    pub fn fork(&self, len: usize, capacity: usize) -> Result<Self> {
        let mut fork = Self::new(self.decoder.clone(), capacity.max(len));
        fork.cache.append(&self.cache, 0..len)?;
        fork.offset = self.offset;
        fork.history = self.history.clone();
        if let Some(history) = &mut fork.history {
            history.truncate(len);
        }
        Ok(fork)
    }

    /// Append copies of the slots `range` of another sequence of the same model.
    pub fn append(&mut self, other: &Sequence, range: Range<usize>) -> Result<()> {
        self.cache.append(&other.cache, range)?;
        // Rows of another sequence, perhaps without those before them.
        self.history = None;
        Ok(())
    }

    /// Keep what [`Sequence::truncate`] to the present length would need. In models with full attention only it needs nothing; the
    /// states of linear attention are kept for the last marks and some slots around the last pass, and going back to another slot
    /// feeds the slots before it again.
    pub fn mark(&mut self) {
        if self.cache.owed() == 0 {
            self.cache.mark();
        }
    }

    /// Feed the slots again that were rolled back too far.
    pub(super) fn feed_owed(&mut self) -> Result<()> {
        let owed = self.cache.owed();
        if owed == 0 {
            return Ok(());
        }
        let Some(history) = &self.history else {
            specreel_tensor::bail!("the state of slot {} is not kept", self.len());
        };
        let end = self.len();
        let mut at = end - owed;
        self.cache.truncate(at);
        while at < end {
            let (rows, positions) = history.rows(at..end.min(at + self.decoder.chunk()))?;
            let input = rows.input();
            let (mask, taps) = (Mask::Causal, Taps::default());
            self.decoder.forward(input, &positions, &mask, &mut self.cache, &taps, &mut self.workspace)?;
            at += input.rows();
        }
        self.cache.mark();
        Ok(())
    }

    /// Of the slots from `base` on, keep `rows`: see [`Cache::keep`](crate::decoder::SequenceCache::keep).
    pub fn keep(&mut self, base: usize, rows: &[usize]) {
        let slots = self.cache.len();
        for stage in &mut self.below {
            let more = stage.cache.len() - slots;
            stage.cache.keep(base + more, rows);
        }
        self.cache.keep(base, rows);
        if let Some(history) = &mut self.history {
            history.keep(base, rows);
        }
    }

    /// Drop all slots from `len` on.
    pub fn truncate(&mut self, len: usize) {
        let len = len.min(self.len());
        let dropped = self.len() - len;
        for stage in &mut self.below {
            let slots = stage.cache.len();
            stage.cache.truncate(slots - dropped);
        }
        self.cache.truncate(len);
        if let Some(history) = &mut self.history {
            history.truncate(len);
        }
    }
}
