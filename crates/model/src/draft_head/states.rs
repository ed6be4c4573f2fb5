//! The target's states that a draft head starts from.

use specreel_tensor::{Result, VisualSpans};

use super::{DraftHead, Recipe, tapped};
use crate::decoder::{Decoder, Pass, States, Taps};

/// For every text row of a prompt the target's final state at the row before it. States before visual rows are not kept:
/// however long the video, this is as long as the text.
#[derive(Clone, Debug, Default)]
pub struct TextStates {
    width: usize,
    visual: VisualSpans,
    /// States of the rows before rows without a visual token, in order, `rows × width`.
    states: Vec<f32>,
    zeros: Vec<f32>,
    /// What the last head that reads all rows has asked for; see [`TextStates::read_by`].
    pub read: Option<ReadStates>,
}

/// The states of all rows of a prompt but its last, as a draft head reads them.
#[derive(Clone, Debug)]
pub struct ReadStates {
    /// `rows × width`.
    pub rows: States,
    /// The last row: the state before the first root.
    pub last: Vec<f32>,
    pub recipe: Recipe,
}

/// Collects [`ReadStates`] from the target's passes over a prompt.
pub struct StateReader<'a> {
    head: &'a DraftHead,
    rows: Vec<States>,
}

impl<'a> StateReader<'a> {
    /// Nothing was read yet.
    pub fn new(head: &'a DraftHead) -> Self {
        Self { head, rows: Vec::new() }
    }

    /// True if nothing was read yet.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// What the passes must tap.
    pub fn taps(&self) -> Taps {
        Taps { after_layers: self.head.taps().to_vec(), ..Taps::default() }
    }

    /// Take the next rows. Fails if the pass tapped other layers.
    pub fn read(&mut self, pass: &Pass, target: &Decoder) -> Result<()> {
        let states = if self.head.taps().is_empty() { pass.states.clone() } else { tapped(pass, target)? };
        self.rows.push(self.head.reduce(&states)?);
        Ok(())
    }

    /// All that was read. Fails if nothing was.
    pub fn finish(self) -> Result<ReadStates> {
        let rows = States::cat(&self.rows)?;
        let last = rows.narrow(rows.rows().saturating_sub(1), 1)?.to_vec()?;
        Ok(ReadStates { rows, last, recipe: self.head.config().recipe })
    }
}

impl TextStates {
    /// No states yet, for a prompt with these visual tokens and states of `width` values.
    pub fn new(width: usize, visual: VisualSpans) -> Self {
        Self { width, visual, zeros: vec![0.0; width], ..Self::default() }
    }

    /// Add the states of the rows from `first` on; rows come in order.
    pub fn push(&mut self, first: usize, states: &[f32]) {
        for (row, state) in (first..).zip(states.chunks_exact(self.width.max(1))) {
            if !self.visual.contains(row + 1) {
                self.states.extend_from_slice(state);
            }
        }
    }

    pub fn bytes(&self) -> usize {
        let read = self.read.as_ref().map_or(0, |read| read.rows.bytes());
        size_of_val(&self.states[..]) + size_of_val(&self.zeros[..]) + read
    }

    /// The states of the first `rows` rows only: another prompt that begins like this one may continue from there.
    pub fn first(&self, rows: usize) -> Self {
        let mut first = Self { read: None, ..self.clone() };
        first.states.truncate(self.kept_before(rows) * self.width);
        first
    }

    /// The states of all rows as this head reads them; `None` if it reads others, or they were not computed for it.
    pub fn read_by(&self, head: &DraftHead) -> Option<&ReadStates> {
        self.read.as_ref().filter(|read| head.reads_all_rows() && read.recipe == head.config().recipe)
    }

    /// The state before the first root, in row `root`, as this head reads it.
    pub fn before_root(&self, root: usize, head: &DraftHead) -> &[f32] {
        match self.read_by(head) {
            Some(read) => &read.last,
            None => self.before(root),
        }
    }

    /// The state before a row without a visual token; zeros before the first row and while there is none.
    pub fn before(&self, row: usize) -> &[f32] {
        let state = row.checked_sub(1).map(|row| self.kept_before(row) * self.width);
        state.and_then(|at| self.states.get(at..at + self.width)).unwrap_or(&self.zeros)
    }

    /// The states before rows without a visual token, `rows × width`. Fails if there is no row.
    pub fn before_all(&self, rows: &[usize]) -> Result<States> {
        States::new(rows.iter().flat_map(|&row| self.before(row)).copied().collect(), self.width)
    }

    /// Number of the first `rows` rows whose states are kept.
    fn kept_before(&self, rows: usize) -> usize {
        rows - (self.visual.tokens_before(rows + 1) - usize::from(self.visual.contains(0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_row_finds_the_state_before_it() {
        let one = [0..4, 3..5, 3..4, 2..9, 0..0, 4..4].map(VisualSpans::from);
        let several = [vec![0..2, 3..5, 8..9], vec![1..3, 4..6], vec![2..3, 6..10]];
        let several = several.map(|spans| VisualSpans::new(spans, 12).unwrap());
        for visual in one.into_iter().chain(several) {
            let mut states = TextStates::new(2, visual.clone());
            for chunk in (0..12).collect::<Vec<usize>>().chunks(5) {
                let values: Vec<f32> = chunk.iter().flat_map(|&row| [row as f32, 0.5]).collect();
                states.push(chunk[0], &values);
            }
            assert_eq!(states.before(0), [0.0, 0.0]);
            for row in (1..13).filter(|row| !visual.contains(*row)) {
                assert_eq!(states.before(row), [(row - 1) as f32, 0.5], "{visual:?} {row}");
            }
            assert_eq!(states.before(40), [0.0, 0.0]);
            for kept in 0..12 {
                let mut again = states.first(kept);
                assert_eq!(again.before(12), [0.0, 0.0], "{visual:?} {kept}");
                let rest: Vec<f32> = (kept..12).flat_map(|row| [row as f32, 0.5]).collect();
                again.push(kept, &rest);
                assert_eq!(again.states, states.states, "{visual:?} {kept}");
            }
        }
    }
}
