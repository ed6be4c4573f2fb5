//! The target's final states that a drafting layer goes on from.

use std::ops::Range;

/// For every text row of a prompt the target's final state at the row before it. Visual rows are not kept, but for the last:
/// however long the video, this is as long as the text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TextStates {
    width: usize,
    /// Rows of visual tokens.
    visual: Range<usize>,
    /// States of the rows before the video, one after the other.
    front: Vec<f32>,
    /// States of the video's last row and all rows after it.
    back: Vec<f32>,
    zeros: Vec<f32>,
}

impl TextStates {
    /// Nothing yet, of states this wide and a prompt with visual tokens at these rows.
    pub fn new(width: usize, visual: Range<usize>) -> Self {
        Self { width, visual, zeros: vec![0.0; width], ..Self::default() }
    }

    /// Note the states of rows from `first` on; rows come in order.
    pub fn push(&mut self, first: usize, states: &[f32]) {
        for (row, state) in (first..).zip(states.chunks_exact(self.width.max(1))) {
            if row < self.visual.start {
                self.front.extend_from_slice(state);
            } else if row + 1 >= self.visual.end {
                self.back.extend_from_slice(state);
            }
        }
    }

    /// What was noted of the first `rows` rows, which reach beyond the video: another prompt may go on from there.
    pub fn first(&self, rows: usize) -> Self {
        let after = self.visual.end.saturating_sub(1).max(self.visual.start);
        let mut first = self.clone();
        first.back.truncate(rows.saturating_sub(after) * self.width);
        first
    }

    /// The state before this text row; zeros before the first row and where nothing was noted.
    pub fn before(&self, row: usize) -> &[f32] {
        let Some(row) = row.checked_sub(1) else { return &self.zeros };
        // The row from which on `back` holds states.
        let after = self.visual.end.saturating_sub(1).max(self.visual.start);
        let (states, at) = if row < self.visual.start {
            (&self.front, row)
        } else {
            (&self.back, row.saturating_sub(after))
        };
        states.get(at * self.width..(at + 1) * self.width).unwrap_or(&self.zeros)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_row_finds_the_state_before_it() {
        for visual in [0..4, 3..5, 3..4, 2..9, 0..0, 4..4] {
            let mut states = TextStates::new(2, visual.clone());
            for chunk in (0..12).collect::<Vec<usize>>().chunks(5) {
                let values: Vec<f32> = chunk.iter().flat_map(|&row| [row as f32, 0.5]).collect();
                states.push(chunk[0], &values);
            }
            assert_eq!(states.before(0), [0.0, 0.0]);
            for row in (1..13).filter(|row| !visual.contains(row)) {
                assert_eq!(states.before(row), [(row - 1) as f32, 0.5], "{visual:?} {row}");
            }
            assert_eq!(states.before(40), [0.0, 0.0]);
            let begun = visual.end.max(1);
            let mut again = states.first(begun);
            assert_eq!(again.before(begun + 1), [0.0, 0.0]);
            let rest: Vec<f32> = (begun..12).flat_map(|row| [row as f32, 0.5]).collect();
            again.push(begun, &rest);
            assert!(again == states || visual.is_empty(), "{visual:?}");
        }
    }
}
