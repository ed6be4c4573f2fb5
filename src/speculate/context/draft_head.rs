//! The prefill of a draft head.

use std::ops::ControlFlow;

use super::{Preparation, Selection, layers_of};
use crate::{
    model::{
        decoder::{Positions, Sequence, States},
        draft_head::{DraftHead, TextStates, VisualRows},
        family::ModelError,
    },
    speculate::method::Placing,
};

/// Share of the target's layers after which visual states are taken (Sparrow's m*).
const MIDDLE: f64 = 0.5;

impl Preparation<'_> {
    /// The head's sequence over the prompt without its last token: text rows from the target's states, visual rows as it was
    /// trained with them, if the selection keeps any. None if `progress` stopped the work.
    ///
    /// # Errors
    /// If a forward pass fails.
    pub fn prefill_draft_head(
        &self,
        layer: &DraftHead,
        states: &TextStates,
        selection: &Selection,
        placing: Placing,
        room: usize,
        progress: &mut dyn FnMut(usize, usize) -> ControlFlow<()>,
    ) -> Result<Option<Sequence>, ModelError> {
        let prompt = self.prompt;
        // The newline that ends a video in some families is not text, and the head was not trained with it.
        let known = |row: &usize| prompt.newline != Some(*row);
        let rows: Vec<usize> = self.rows(selection).into_iter().filter(known).collect();
        let sees_any = rows.iter().any(|row| prompt.visual.contains(*row));
        let visual = match (sees_any, layer.config().visual_rows, self.visual) {
            (false, ..) => None,
            (true, VisualRows::Embeddings, visual) => visual.cloned(),
            (true, VisualRows::Middle, _) => match self.middle_states(progress)? {
                None => return Ok(None),
                states => states,
            },
        };
        let mut parts = Vec::new();
        for run in rows.chunk_by(|a, b| prompt.visual.contains(*a) == prompt.visual.contains(*b)) {
            match &visual {
                Some(visual) if prompt.visual.contains(run[0]) => {
                    let tokens = run.iter().filter_map(|&row| prompt.visual.token(row));
                    parts.push(visual.select(&tokens.collect::<Vec<_>>())?);
                }
                _ => {
                    let ids: Vec<u32> = run.iter().filter_map(|&row| prompt.ids.get(row).copied()).collect();
                    let before: Vec<f32> = run.iter().flat_map(|&row| states.before(row)).copied().collect();
                    parts.push(layer.fuse(&ids, &before)?);
                }
            }
        }
        let input = States::cat(&parts)?;
        let (positions, next) = match placing {
            Placing::Original => (prompt.positions.select(&rows), prompt.next - 1),
            Placing::Compact => (Positions::text(0, rows.len()), rows.len() as u32),
        };
        let mut sequence = Sequence::new(layer.decoder().clone(), rows.len() + room);
        let whole = sequence.prefill(&input, &positions, next, &mut |_, _| {}, progress)?;
        Ok(whole.then_some(sequence))
    }

    /// The target's states of the visual tokens after half of its layers.
    fn middle_states(
        &self,
        progress: &mut dyn FnMut(usize, usize) -> ControlFlow<()>,
    ) -> Result<Option<States>, ModelError> {
        let (decoder, layers) = (self.target.decoder(), layers_of(self.target, MIDDLE));
        let (spans, end) = (&self.prompt.visual, self.prompt.visual.end());
        let rows: Vec<usize> = (0..end).collect();
        let embeddings = self.target.embed(self.prompt, self.visual, &rows)?;
        let mut sequence = Sequence::new(std::sync::Arc::new(decoder.first_layers(layers)), end);
        let positions = self.prompt.positions.select(&rows);
        let Some(states) = sequence.prefill_below(&embeddings, &positions, layers, progress)? else {
            return Ok(None);
        };
        let visual: Vec<States> = spans
            .ranges()
            .map(|span| states.narrow(span.start, span.len()))
            .collect::<candle_core::Result<_>>()?;
        Ok(Some(States::cat(&visual)?))
    }
}
