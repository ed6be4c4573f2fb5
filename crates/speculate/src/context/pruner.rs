//! A target that itself reads a part of the visual tokens. Which part a [`Pruner`] says, which only measurements have.

use std::{fmt::Debug, ops::ControlFlow};

use specreel_tensor::{Result, VisualSpans};

use super::{Preparation, prepare::OnProgress};
use specreel_model::{
    decoder::{Sequence, Staged},
    family::ModelError,
};

/// Says which visual tokens a target keeps while it reads a prompt.
pub trait Pruner: Debug + Send + Sync {
    /// The pruner with its numbers, as data: a run reports it, and what one pruner's target has read is no other's.
    fn describe(&self) -> serde_json::Value;

    /// After how many of a target's `layers` layers it drops visual tokens, ascending; 0 is before the first one, and after the last
    /// one there is nothing to drop.
    fn cuts(&self, layers: usize) -> Vec<usize>;

    /// The visual tokens that stay after so many layers: indices into [`PartialReading::tokens`], ascending.
    /// Fails if a pass over the text fails.
    fn keep(&self, layers: usize, read: &mut PartialReading<'_>) -> Result<Vec<usize>>;
}

impl PartialEq for dyn Pruner {
    fn eq(&self, other: &Self) -> bool {
        self.describe() == other.describe()
    }
}

/// A prompt that a target has read up to some layer, with the signals by which a [`Pruner`] chooses; each is computed when it is asked
/// for.
pub struct PartialReading<'a> {
    preparation: &'a Preparation<'a>,
    staged: Staged,
    tokens: Vec<usize>,
    /// The rows of the prompt that are left, its last token not counted.
    rows: Vec<usize>,
}

impl PartialReading<'_> {
    /// The visual tokens that are left, ascending.
    pub fn tokens(&self) -> &[usize] {
        &self.tokens
    }

    /// Time × rows × columns of all visual tokens.
    pub fn grid(&self) -> [usize; 3] {
        self.preparation.grid
    }

    /// The embeddings of all visual tokens, rows of the second number.
    pub fn embeddings(&self) -> Result<(Vec<f32>, usize)> {
        self.preparation.embeddings()
    }

    /// The attention of the prompt's last token in the newest layer to each visual token that is left: the mean over heads.
    pub fn attention_of_last(&mut self) -> Result<Vec<f32>> {
        let last = self.preparation.prompt.ids.len() - 1;
        Ok(self.attention(last)?.pop().unwrap_or_default())
    }

    /// The same of every token after the video.
    pub fn attention_of_text(&mut self) -> Result<Vec<Vec<f32>>> {
        let prompt = self.preparation.prompt;
        self.attention(prompt.video_end().min(prompt.ids.len() - 1))
    }

    /// The attention of the prompt's rows from `first` on.
    fn attention(&mut self, first: usize) -> Result<Vec<Vec<f32>>> {
        let (prompt, last) = (self.preparation.prompt, self.preparation.prompt.ids.len() - 1);
        let slots = self.rows.iter().enumerate().filter(|(_, row)| prompt.visual.contains(**row));
        let spans = VisualSpans::new(slots.map(|(slot, _)| slot..slot + 1), self.rows.len())?;
        let rating: Vec<usize> = (first..=last).collect();
        let positions = prompt.positions.select(&rating);
        self.staged.attention(&prompt.ids[first..], &positions, last - first, &spans)
    }

    /// Let only these of the tokens that are left enter the next layer.
    fn drop_others(&mut self, stay: &[usize]) -> Result<()> {
        let prompt = self.preparation.prompt;
        self.tokens = stay.iter().filter_map(|&index| self.tokens.get(index).copied()).collect();
        let left = prompt.visual.rows_keeping(&self.tokens, prompt.ids.len() - 1);
        let slots: Vec<usize> = left.iter().filter_map(|row| self.rows.binary_search(row).ok()).collect();
        self.staged.keep(&slots)?;
        self.rows = left;
        Ok(())
    }
}

/// A prompt that a pruned target has read.
pub struct PrunedPrompt {
    /// The prompt without its last token.
    pub target: Sequence,
    /// The visual tokens that all layers have read, ascending.
    pub kept: Vec<usize>,
    /// The prompt's rows that the last layer has read, with their final states, one after the other.
    pub rows: Vec<usize>,
    pub states: Vec<f32>,
}

impl Preparation<'_> {
    /// Let the target read the prompt as `pruner` says; `room` slots are left for what follows. `None` if `progress` (rows done in
    /// all layers, and in total as far as it is known) stopped it.
    pub fn prefill_pruned(
        &self,
        pruner: &dyn Pruner,
        room: usize,
        progress: OnProgress<'_>,
    ) -> std::result::Result<Option<PrunedPrompt>, ModelError> {
        let (decoder, prompt) = (self.target.decoder(), self.prompt);
        let (layers, width) = (decoder.config().layers, decoder.config().hidden);
        let rows: Vec<usize> = (0..prompt.ids.len() - 1).collect();
        let embeddings = self.target.embed(prompt, self.visual, &rows)?;
        let positions = prompt.positions.select(&rows);
        let staged = Staged::new(decoder.clone(), embeddings, positions, room);
        let tokens = (0..prompt.visual.len()).collect();
        let mut read = PartialReading { preparation: self, staged, tokens, rows };
        // Rows that earlier layers have read, and the layers that have run.
        let (mut before, mut from) = (0, 0);
        let mut tick = |before: usize, from: usize, to: usize, done: usize, rows: usize| -> ControlFlow<()> {
            progress(before + done * (to - from), before + rows * (layers - from))
        };
        for cut in pruner.cuts(layers).into_iter().filter(|cut| *cut < layers) {
            if cut > from {
                let mut tick = |done: usize, rows: usize| tick(before, from, cut, done, rows);
                if !read.staged.run_to(cut, &mut tick)? {
                    return Ok(None);
                }
                before += read.rows.len() * (cut - from);
                from = cut;
            }
            if !read.tokens.is_empty() {
                let stay = pruner.keep(cut, &mut read)?;
                read.drop_others(&stay)?;
            }
        }
        let PartialReading { staged, tokens: kept, rows, .. } = read;
        let mut states = Vec::with_capacity(rows.len() * width);
        let mut tick = |done: usize, rows: usize| tick(before, from, layers, done, rows);
        let collect = &mut |_: usize, chunk: &[f32]| states.extend_from_slice(chunk);
        let target = staged.finish(prompt.next - 1, collect, &mut tick)?;
        Ok(target.map(|target| PrunedPrompt { target, kept, rows, states }))
    }
}
