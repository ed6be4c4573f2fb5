//! The prefill of a draft head.

use std::sync::Arc;

use super::{
    Preparation, Selection, layers_of,
    prepare::{OnProgress, placed},
};
use crate::method::Placing;
use specreel_model::{
    decoder::{Positions, Sequence, States},
    draft_head::{BlockConfig, DraftHead, ReadStates, StateReader, TextStates, VisualRows},
    family::ModelError,
};

/// Share of the target's layers after which visual states are taken (Sparrow's m*).
const MIDDLE: f64 = 0.5;

/// Rows that are made at a time.
const CHUNK: usize = 256;

/// A draft head that has read its share of the prompt.
pub struct HeadPrefill {
    /// The prompt without its last token, as the head reads it.
    pub sequence: Sequence,
    /// What sums up the visual tokens, for a head with an adaptor; empty if it has none, or saw none.
    pub seen: Vec<f32>,
}

/// What a draft head reads.
#[derive(Clone, Copy)]
pub struct HeadInput<'a> {
    pub head: &'a DraftHead,
    /// The target's states before its rows.
    pub states: &'a TextStates,
    /// The drafter's share of the prompt.
    pub selection: &'a Selection,
    /// The positions of that.
    pub placing: Placing,
    /// Cache slots that are left for what follows.
    pub room: usize,
}

impl From<Sequence> for HeadPrefill {
    fn from(sequence: Sequence) -> Self {
        Self { sequence, seen: Vec::new() }
    }
}

impl HeadInput<'_> {
    /// Let the head read input rows at these positions.
    fn feed(
        &self,
        parts: &[States],
        (positions, next): (Positions, u32),
        progress: OnProgress<'_>,
    ) -> Result<Option<Sequence>, ModelError> {
        let rows = positions.axes[0].len();
        let mut sequence = Sequence::new(self.head.decoder().clone(), rows + self.room);
        if parts.is_empty() {
            return Ok(Some(sequence));
        }
        let whole = sequence.prefill(&States::cat(parts)?, &positions, next, &mut |_, _| {}, progress)?;
        Ok(whole.then_some(sequence))
    }
}

impl Preparation<'_> {
    /// The head's sequence over the prompt without its last token: text rows from the target's states, visual rows as it was
    /// trained with them, if the selection keeps any. `None` if `progress` stopped the work.
    pub fn prefill_draft_head(
        &self,
        input: &HeadInput<'_>,
        progress: OnProgress<'_>,
    ) -> Result<Option<HeadPrefill>, ModelError> {
        let HeadInput { head: layer, states, selection, .. } = *input;
        if layer.assists() {
            return Ok(Some(Sequence::new(layer.decoder().clone(), 0).into()));
        }
        if let Some(states) = states.read_by(layer) {
            return Ok(self.prefill_of_all_rows(input, states, progress)?.map(HeadPrefill::from));
        }
        let (prompt, width) = (self.prompt, self.target.decoder().config().hidden);
        // The newline that ends a video in some families is not text, and the head was not trained with it.
        let known = |row: &usize| prompt.newline != Some(*row);
        let rows: Vec<usize> = self.rows(selection).into_iter().filter(known).collect();
        let sees_any = rows.iter().any(|row| prompt.visual.contains(*row));
        let visual = match (sees_any, layer.config().visual_rows, self.visual) {
            (false, ..) => None,
            // The head reads the input of the first layer, without later additions.
            (true, VisualRows::Embeddings, visual) => {
                visual.map(|rows| rows.columns(0..width)).transpose()?
            }
            (true, VisualRows::Middle, _) => match self.middle_states(progress)? {
                None => return Ok(None),
                states => states,
            },
        };
        let is_visual = |row: usize| visual.is_some() && prompt.visual.contains(row);
        if layer.compresses() {
            return self.prefill_compressed(input, visual.as_ref(), &rows, progress);
        }
        // One projection for all text rows: a prompt with a time stamp in every frame has many short runs of them.
        let text: Vec<usize> = rows.iter().copied().filter(|row| !is_visual(*row)).collect();
        let ids: Vec<u32> = text.iter().filter_map(|&row| prompt.ids.get(row).copied()).collect();
        let text = layer.fuse(&ids, &states.before_all(&text)?)?;
        let (mut parts, mut fused) = (Vec::new(), 0);
        for run in rows.chunk_by(|a, b| is_visual(*a) == is_visual(*b)) {
            parts.push(match visual.as_ref().filter(|_| is_visual(run[0])) {
                Some(visual) => {
                    let tokens = run.iter().filter_map(|&row| prompt.visual.token(row));
                    visual.select(&tokens.collect::<Vec<_>>())?
                }
                None => text.narrow(fused, run.len())?,
            });
            fused += if is_visual(run[0]) { 0 } else { run.len() };
        }
        let at = placed(prompt, &rows, input.placing);
        let read = input.feed(&parts, at, progress)?;
        Ok(read.map(HeadPrefill::from))
    }

    /// The prefill of a head with an adaptor: each run of visual tokens as a few rows at its last positions, and in the text rows
    /// after it the vector that sums it up.
    fn prefill_compressed(
        &self,
        input: &HeadInput<'_>,
        visual: Option<&States>,
        rows: &[usize],
        progress: OnProgress<'_>,
    ) -> Result<Option<HeadPrefill>, ModelError> {
        let (HeadInput { head, states, .. }, prompt) = (*input, self.prompt);
        let is_visual = |row: usize| visual.is_some() && prompt.visual.contains(row);
        let (mut parts, mut kept, mut seen) = (Vec::new(), Vec::new(), Vec::new());
        for run in rows.chunk_by(|a, b| is_visual(*a) == is_visual(*b)) {
            if let Some(visual) = visual.filter(|_| is_visual(run[0])) {
                let tokens: Vec<usize> = run.iter().filter_map(|&row| prompt.visual.token(row)).collect();
                let Some(compressed) = head.compress(&visual.select(&tokens)?)? else { continue };
                let count = compressed.rows.rows().min(run.len());
                if count > 0 {
                    parts.push(compressed.rows.narrow(0, count)?);
                }
                kept.extend_from_slice(&run[run.len() - count..]);
                seen = compressed.vector;
            } else {
                let ids: Vec<u32> = run.iter().filter_map(|&row| prompt.ids.get(row).copied()).collect();
                parts.push(head.fuse(&ids, &head.mix(states.before_all(run)?, &seen)?)?);
                kept.extend_from_slice(run);
            }
        }
        let read = input.feed(&parts, placed(prompt, &kept, input.placing), progress)?;
        Ok(read.map(|sequence| HeadPrefill { sequence, seen }))
    }

    /// The prefill of a head that reads visual tokens like text: a row for every token but the first, from the target's state
    /// before it, at the position of that state.
    fn prefill_of_all_rows(
        &self,
        input: &HeadInput<'_>,
        states: &ReadStates,
        progress: OnProgress<'_>,
    ) -> Result<Option<Sequence>, ModelError> {
        if let Some(block) = input.head.block() {
            return self.prefill_of_context(input, block, states, progress);
        }
        let (head, prompt) = (input.head, self.prompt);
        let rows: Vec<usize> = self.rows(input.selection).into_iter().filter(|row| *row > 0).collect();
        let read: Vec<usize> = rows.iter().map(|row| row - 1).collect();
        let width = self.target.decoder().width();
        let mut parts = Vec::new();
        for (rows, read) in rows.chunks(CHUNK).zip(read.chunks(CHUNK)) {
            if progress(0, read.len()).is_break() {
                return Ok(None);
            }
            let embeddings = self.target.embed(prompt, self.visual, rows)?.columns(0..width)?;
            parts.push(head.fuse_embedded(&embeddings, &states.rows.select(read)?)?);
        }
        let at = match input.placing {
            // A head that counts on one axis was trained with the rows counted.
            Placing::Original if head.config().mrope_section.is_none() => {
                let axis: Vec<u32> = read.iter().map(|row| *row as u32).collect();
                (Positions { axes: [axis.clone(), axis.clone(), axis] }, (prompt.ids.len() - 2) as u32)
            }
            placing => {
                let (positions, next) = placed(prompt, &read, placing);
                let ahead = u32::from(placing == Placing::Original && prompt.next > 1);
                (positions, next - ahead)
            }
        };
        input.feed(&parts, at, progress)
    }

    /// The prefill of a head that drafts blocks: a context row for every token, from the target's state at it. Rows that no block can
    /// see are left out.
    fn prefill_of_context(
        &self,
        input: &HeadInput<'_>,
        block: &BlockConfig,
        states: &ReadStates,
        progress: OnProgress<'_>,
    ) -> Result<Option<Sequence>, ModelError> {
        let (head, prompt) = (input.head, self.prompt);
        let mut rows = self.rows(input.selection);
        let at = match input.placing {
            Placing::Original if head.config().mrope_section.is_none() => {
                let axis: Vec<u32> = rows.iter().map(|row| *row as u32).collect();
                (Positions { axes: [axis.clone(), axis.clone(), axis] }, (prompt.ids.len() - 1) as u32)
            }
            placing => placed(prompt, &rows, placing),
        };
        let unseen = block.reach().map_or(0, |reach| rows.len().saturating_sub(reach));
        rows.drain(..unseen);
        let (positions, next) = (at.0.slice(unseen..unseen + rows.len()), at.1);
        let slots = rows.len() + input.room + block.block_size;
        let mut sequence = Sequence::new(head.decoder().clone(), slots);
        let context = states.rows.select(&rows)?;
        let whole = sequence.inject_prompt(&context, &positions, next, progress)?;
        Ok(whole.then_some(sequence))
    }

    /// The states of all rows of the prompt but its last that a head reads ([`DraftHead::reads_all_rows`]); from a pass of its own
    /// through the layers up to the last one tapped, or all. `None` if `progress` stopped it.
    pub fn read_states(
        &self,
        head: &DraftHead,
        progress: OnProgress<'_>,
    ) -> Result<Option<ReadStates>, ModelError> {
        let decoder = self.target.decoder();
        let layers = head.taps().iter().max().map_or(decoder.config().layers, |last| last + 1);
        let rows: Vec<usize> = (0..self.prompt.ids.len() - 1).collect();
        let embeddings = self.target.embed(self.prompt, self.visual, &rows)?;
        let positions = self.prompt.positions.select(&rows);
        let mut sequence = Sequence::new(Arc::new(decoder.first_layers(layers)), rows.len());
        let mut reader = StateReader::new(head);
        let whole = sequence.prefill_tapped(
            &embeddings,
            &positions,
            self.prompt.next - 1,
            &reader.taps(),
            &mut |_, pass| reader.read(pass, decoder),
            progress,
        )?;
        Ok(if whole { Some(reader.finish()?) } else { None })
    }

    /// The target's states of the visual tokens after half of its layers.
    fn middle_states(&self, progress: OnProgress<'_>) -> Result<Option<States>, ModelError> {
        let (decoder, layers) = (self.target.decoder(), layers_of(self.target, MIDDLE));
        let (spans, end) = (&self.prompt.visual, self.prompt.visual.end());
        let rows: Vec<usize> = (0..end).collect();
        let embeddings = self.target.embed(self.prompt, self.visual, &rows)?;
        let mut sequence = Sequence::new(Arc::new(decoder.first_layers(layers)), end);
        let positions = self.prompt.positions.select(&rows);
        let Some(states) = sequence.prefill_below(&embeddings, &positions, layers, progress)? else {
            return Ok(None);
        };
        let states = states.columns(0..decoder.config().hidden)?;
        let visual: Vec<States> = spans
            .ranges()
            .map(|span| states.narrow(span.start, span.len()))
            .collect::<specreel_tensor::Result<_>>()?;
        Ok(Some(States::cat(&visual)?))
    }
}
