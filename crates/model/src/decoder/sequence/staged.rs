//! A prefill in stages: later layers read fewer rows than earlier ones.
//!
//! Each stage is a run of layers with a cache of its own, since it holds another number of rows. All stages hold the same text
//! rows at the end, so a sequence that was read in stages is fed, truncated and continued like any other.

use std::{
    ops::{ControlFlow, Range},
    sync::Arc,
};

use specreel_tensor::{Result, VisualSpans};

use super::Sequence;
use crate::decoder::{
    AttentionProbe, Cache, Decoder, Input, Mask, Pass, Positions, States, Taps, Workspace, with_slice,
};

/// A run of layers with its cache.
pub(super) struct Stage {
    decoder: Arc<Decoder>,
    layers: Range<usize>,
    pub(super) cache: Cache,
}

impl Stage {
    /// The layer after its last.
    pub(super) fn end(&self) -> usize {
        self.layers.end
    }

    /// The states after these layers, followed by the DeepStack levels of later ones if the input has them; and the
    /// attention of the rows in these layers.
    fn climb(
        &mut self,
        input: Input<'_>,
        positions: &Positions,
        mask: &Mask,
        probe: Option<AttentionProbe>,
        workspace: &mut Workspace,
        whole: &Decoder,
    ) -> Result<(States, Pass)> {
        let taps = Taps { before_norm: true, layers: Some(self.layers.clone()), probe, ..Taps::default() };
        let pass = self.decoder.forward(input, positions, mask, &mut self.cache, &taps, workspace)?;
        let Some(below) = &pass.before_norm else { specreel_tensor::bail!("a pass without states") };
        let rest = whole.config().carried(self.layers.start, self.layers.end);
        let states = match input {
            Input::States(rows) if !rest.is_empty() && rows.shape().1 >= rest.end => {
                whole.beside(below, &rows.columns(rest)?)?
            }
            _ => below.clone(),
        };
        Ok((states, pass))
    }
}

/// The states that enter the layers above `stages`, for rows that all of them read. `slots` is the number of slots in use above.
pub(super) fn climb(
    stages: &mut [Stage],
    input: Input<'_>,
    positions: &Positions,
    mask: &Mask,
    slots: usize,
    workspace: &mut Workspace,
    whole: &Decoder,
) -> Result<Option<States>> {
    let mut states: Option<States> = None;
    for stage in stages {
        let mask = match mask {
            Mask::Causal => Mask::Causal,
            // The rows that only this stage has come before all that a tree may leave out.
            Mask::Paths { shared, paths } => {
                Mask::Paths { shared: shared + stage.cache.len() - slots, paths: paths.clone() }
            }
        };
        let input = states.as_ref().map_or(input, Input::States);
        states = Some(stage.climb(input, positions, &mask, None, workspace, whole)?.0);
    }
    Ok(states)
}

/// A prompt that is read stage by stage.
pub struct Staged {
    decoder: Arc<Decoder>,
    stages: Vec<Stage>,
    rows: States,
    positions: Positions,
    workspace: Workspace,
    /// Cache slots beyond the prompt's.
    room: usize,
}

impl Staged {
    /// A prompt's embeddings (as of [`Sequence::prefill`]) at their positions; `room` slots are left for what follows.
    pub fn new(decoder: Arc<Decoder>, embeddings: States, positions: Positions, room: usize) -> Self {
        Self {
            decoder,
            stages: Vec::new(),
            rows: embeddings,
            positions,
            workspace: Workspace::default(),
            room,
        }
    }

    fn done(&self) -> usize {
        self.stages.last().map_or(0, |stage| stage.layers.end)
    }

    /// Rows that enter the next stage.
    pub fn len(&self) -> usize {
        self.rows.rows()
    }

    /// True if no row enters it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Run the layers up to `layers` over the rows. `progress` (rows done, rows in total) may stop it: false. Fails if a pass
    /// fails, or no layer is left to run.
    pub fn run_to(
        &mut self,
        layers: usize,
        progress: &mut dyn FnMut(usize, usize) -> ControlFlow<()>,
    ) -> Result<bool> {
        let from = self.done();
        if layers <= from || layers >= self.decoder.config().layers {
            specreel_tensor::bail!("a stage from layer {from} to layer {layers}");
        }
        let decoder = Arc::new(self.decoder.first_layers(layers));
        let cache = decoder.cache(self.len() + self.room);
        let mut stage = Stage { decoder, layers: from..layers, cache };
        let (rows, mut done, mut after) = (self.len(), 0, Vec::new());
        while done < rows {
            if progress(done, rows).is_break() {
                return Ok(false);
            }
            let n = self.decoder.chunk().min(rows - done);
            let input = self.rows.narrow(done, n)?;
            let at = self.positions.slice(done..done + n);
            let (workspace, whole) = (&mut self.workspace, &*self.decoder);
            after.push(stage.climb((&input).into(), &at, &Mask::Causal, None, workspace, whole)?.0);
            done += n;
        }
        self.rows = States::cat(&after)?;
        self.stages.push(stage);
        Ok(true)
    }

    /// The attention of text rows to `spans` (slots of the newest stage) in the last layer that has run: for each row the mean
    /// over heads. The rows are the last `again` of those read, and one more, the prompt's last token: `ids` at `positions`. The
    /// caches are afterwards as before.
    pub fn attention(
        &mut self,
        ids: &[u32],
        positions: &Positions,
        again: usize,
        spans: &VisualSpans,
    ) -> Result<Vec<Vec<f32>>> {
        let lengths: Vec<usize> = self.stages.iter().map(|stage| stage.cache.len()).collect();
        for (stage, len) in self.stages.iter_mut().zip(&lengths) {
            stage.cache.truncate(len - again);
        }
        let mut rated = Vec::with_capacity(ids.len());
        for row in 0..ids.len() {
            let at = positions.slice(row..row + 1);
            let mut states: Option<States> = None;
            let last = self.stages.len().saturating_sub(1);
            for (index, stage) in self.stages.iter_mut().enumerate() {
                let probe = (index == last).then(|| AttentionProbe { spans: spans.clone(), by_head: true });
                let input = states.as_ref().map_or(Input::Ids(&ids[row..=row]), Input::States);
                let (above, pass) =
                    stage.climb(input, &at, &Mask::Causal, probe, &mut self.workspace, &self.decoder)?;
                states = Some(above);
                if let Some(stats) = pass.attention {
                    let config = self.decoder.config();
                    rated.push(of_last_layer(&stats.by_head, config.kv_heads, config.heads, spans.len()));
                }
            }
        }
        for (stage, len) in self.stages.iter_mut().zip(lengths) {
            stage.cache.truncate(len);
        }
        Ok(rated)
    }

    /// Let only these rows (ascending) enter the next stage. Fails if a row does not exist.
    pub fn keep(&mut self, rows: &[usize]) -> Result<()> {
        self.rows = self.rows.select(rows)?;
        self.positions = self.positions.select(rows);
        Ok(())
    }

    /// Run the rest of the layers. Text continues at position `next`; `states` receives each chunk's first row number and final
    /// states. `None` if `progress` stopped it.
    pub fn finish(
        self,
        next: u32,
        states: &mut dyn FnMut(usize, &[f32]),
        progress: &mut dyn FnMut(usize, usize) -> ControlFlow<()>,
    ) -> Result<Option<Sequence>> {
        let mut sequence = Sequence::new(self.decoder.clone(), self.len() + self.room);
        let from = self.done();
        let taps = Taps { layers: Some(from..self.decoder.config().layers), ..Taps::default() };
        let (rows, mut done) = (self.len(), 0);
        while done < rows {
            if progress(done, rows).is_break() {
                return Ok(None);
            }
            let n = self.decoder.chunk().min(rows - done);
            let input = self.rows.narrow(done, n)?;
            let at = self.positions.slice(done..done + n);
            let (cache, workspace) = (&mut sequence.cache, &mut sequence.workspace);
            let pass = self.decoder.forward(&input, &at, &Mask::Causal, cache, &taps, workspace)?;
            with_slice(&pass.states, |rows| states(done, rows))?;
            done += n;
        }
        let _ = progress(rows, rows);
        sequence.offset = i64::from(next) - sequence.cache.len() as i64;
        sequence.below = self.stages;
        Ok(Some(sequence))
    }
}

/// The mean over heads in the last of some layers: `by_head` has `kv_heads × slots` sums of each.
fn of_last_layer(by_head: &[f32], kv_heads: usize, heads: usize, slots: usize) -> Vec<f32> {
    let layer = &by_head[by_head.len().saturating_sub(kv_heads * slots)..];
    let mut mean = vec![0f32; slots];
    for head in layer.chunks_exact(slots.max(1)) {
        mean.iter_mut().zip(head).for_each(|(sum, weight)| *sum += weight / heads.max(1) as f32);
    }
    mean
}

#[cfg(test)]
mod tests;
