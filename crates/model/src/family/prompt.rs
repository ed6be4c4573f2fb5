//! A prompt as a model sees it: ids, rows of the visual tokens, positions.

use std::ops::Range;

use crate::{
    decoder::Positions,
    processor::{
        ProcessorError,
        layout::{self, VisualGrid, VisualRope},
    },
};
use specreel_tensor::VisualSpans;

/// Positions of a prompt's tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Rope {
    /// The checkpoint's.
    #[default]
    Auto,
    /// M-RoPE: time, row and column on three axes, for checkpoints that support it.
    Mrope,
    /// 1-D positions, incremented by every token, as in the papers' measurements.
    Sequential,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Prompt {
    /// All ids; all rows of the video carry the placeholder's id.
    pub ids: Vec<u32>,
    /// Rows of the visual tokens, one for each cell of the grid.
    pub visual: VisualSpans,
    /// Row of the newline that ends the video in some families. It is no cell of the grid: it is never chosen or dropped, and
    /// it is not text.
    pub newline: Option<usize>,
    /// For each temporal grid the rows of text that belong to it alone: its time stamp and the marks around its visual tokens.
    /// Empty in families that write none.
    pub stamps: Vec<Vec<Range<usize>>>,
    pub positions: Positions,
    /// Position of the first generated token.
    pub next: u32,
}

impl Prompt {
    /// Put the cells of `grid` in place of the pads in `ids`: one pad for every `frames_per_span` frame pairs, with a newline
    /// after the last where the family has one. Fails if `ids` hold another number of pads, or there are no positions for so many
    /// tokens.
    pub fn lay_out(
        ids: &[u32],
        pad: u32,
        grid: VisualGrid,
        frames_per_span: usize,
        newline: bool,
        rope: VisualRope,
    ) -> Result<Self, ProcessorError> {
        if grid.is_empty() || frames_per_span == 0 {
            return Err(ProcessorError::NoVisualTokens);
        }
        let frames = (0..grid.t).step_by(frames_per_span).map(|t| frames_per_span.min(grid.t - t));
        let mut counts: Vec<usize> = frames.map(|frames| frames * grid.per_frame()).collect();
        if let (Some(last), true) = (counts.last_mut(), newline) {
            *last += 1;
        }
        let (ids, mut spans) = layout::expand(ids, pad, &counts)?;
        let newline = match spans.last_mut() {
            Some(last) if newline => {
                last.end -= 1;
                Some(last.end)
            }
            _ => None,
        };
        let visual = VisualSpans::new(spans, ids.len())?;
        let at = layout::positions(ids.len(), &visual, grid, rope)?;
        Ok(Self {
            positions: Positions { axes: at.axes },
            next: at.next,
            visual,
            newline,
            stamps: Vec::new(),
            ids,
        })
    }

    /// Mark the rows of every temporal grid's stamp, of which each has one span: the `opening` rows before the first, the rows
    /// between two spans, and the `closing` rows after each.
    pub(super) fn mark_stamps(&mut self, opening: usize, closing: usize) {
        let mut start = self.visual.first().map_or(0, |first| first.saturating_sub(opening));
        let rows = self.ids.len();
        let stamp = |span: Range<usize>| {
            let end = (span.end + closing).min(rows);
            let before = std::mem::replace(&mut start, end)..span.start;
            [before, span.end..end].into_iter().filter(|rows| !rows.is_empty()).collect()
        };
        self.stamps = self.visual.ranges().map(stamp).collect();
    }

    /// True for rows of text: neither visual tokens nor the newline.
    pub fn is_text(&self, row: usize) -> bool {
        !self.visual.contains(row) && self.newline != Some(row)
    }

    /// The first row of the text after the whole video, its newline included.
    pub fn video_end(&self) -> usize {
        self.newline.map_or(self.visual.end(), |row| row + 1)
    }

    /// The rows of text, ascending.
    pub fn text_rows(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.ids.len()).filter(|row| self.is_text(*row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newline_separates_video_and_text() {
        let grid = VisualGrid { t: 2, h: 1, w: 2 };
        let lay = |newline, rope| Prompt::lay_out(&[5, 9, 6], 9, grid, 2, newline, rope).unwrap();
        let prompt = lay(true, VisualRope::Sequential);
        assert_eq!(prompt.ids, [5, 9, 9, 9, 9, 9, 6]);
        assert_eq!((prompt.visual.clone(), prompt.newline), (VisualSpans::from(1..5), Some(5)));
        assert_eq!((prompt.video_end(), prompt.next), (6, 7));
        assert_eq!(prompt.positions.axes[2], [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(prompt.text_rows().collect::<Vec<_>>(), [0, 6]);
        let without = lay(false, VisualRope::GRIDS);
        assert_eq!((without.visual.clone(), without.newline), (prompt.visual, None));
        assert_eq!((without.video_end(), without.next), (5, 4));
        assert_eq!(without.positions.axes[0], [0, 1, 1, 2, 2, 3]);
        let none = VisualGrid { t: 0, h: 1, w: 2 };
        assert!(Prompt::lay_out(&[9], 9, none, 1, true, VisualRope::Sequential).is_err());
    }

    #[test]
    fn stamps_are_what_belongs_to_one_grid() {
        let grid = VisualGrid { t: 3, h: 1, w: 2 };
        // A question, and three stamps of two ids with one after their pads.
        let ids = [5, 1, 2, 9, 3, 1, 9, 3, 1, 2, 2, 9, 3, 6, 7];
        let mut prompt = Prompt::lay_out(&ids, 9, grid, 1, false, VisualRope::GRIDS).unwrap();
        assert!(prompt.stamps.is_empty());
        prompt.mark_stamps(2, 1);
        assert_eq!(prompt.stamps, [vec![1..3, 5..6], vec![6..7, 9..10], vec![10..13, 15..16]]);
        let rows: Vec<usize> = prompt.stamps.iter().flatten().cloned().flatten().collect();
        assert!(rows.iter().all(|row| prompt.is_text(*row)));
        assert_eq!(prompt.ids.len() - rows.len() - grid.len(), 3);
        prompt.mark_stamps(0, 0);
        let runs: Vec<usize> = prompt.stamps.iter().map(Vec::len).collect();
        assert_eq!((runs, prompt.stamps.concat()), (vec![0, 1, 1], vec![5..7, 9..13]));
    }

    #[test]
    fn each_pad_takes_its_frames() {
        let grid = VisualGrid { t: 3, h: 1, w: 2 };
        let lay = |ids: &[u32], per_span| Prompt::lay_out(ids, 9, grid, per_span, true, VisualRope::GRIDS);
        let prompt = lay(&[5, 9, 6, 7, 9, 8], 2).unwrap();
        assert_eq!(prompt.ids, [5, 9, 9, 9, 9, 6, 7, 9, 9, 9, 8]);
        assert_eq!(prompt.visual, VisualSpans::new([1..5, 7..9], 11).unwrap());
        assert_eq!((prompt.newline, prompt.video_end()), (Some(9), 10));
        assert_eq!(prompt.text_rows().collect::<Vec<_>>(), [0, 5, 6, 10]);
        assert_eq!(prompt.positions.axes[0], [0, 1, 1, 2, 2, 3, 4, 5, 5, 7, 8]);
        assert!(matches!(
            lay(&[5, 9, 6, 9, 8], 1),
            Err(ProcessorError::VideoSpans { found: 2, expected: 3, pad: 9 })
        ));
        assert!(lay(&[9], 0).is_err());
    }
}
