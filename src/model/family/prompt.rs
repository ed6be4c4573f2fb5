//! A prompt as a model sees it: ids, where the video stands, positions.

use std::ops::Range;

use crate::model::{
    decoder::Positions,
    processor::{
        ProcessorError,
        layout::{self, PromptLayout, VisualGrid, VisualRope},
    },
};

/// Which positions a prompt's tokens get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Rope {
    /// The checkpoint's own.
    #[default]
    Auto,
    /// Time, row and column on three axes, for checkpoints that have them.
    Mrope,
    /// One axis on which every token is one further, as in the papers' own measurements.
    Sequential,
}

/// A prompt as the model sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Prompt {
    /// All ids; all rows of the video carry the placeholder's id.
    pub ids: Vec<u32>,
    /// Rows of the visual tokens, one for each cell of the grid.
    pub visual: Range<usize>,
    /// Rows of the whole video: the visual tokens, and after them the newline in families that end a video with one. The
    /// newline is no cell: it is never chosen or dropped, and no text.
    pub video: Range<usize>,
    /// Positions of all rows.
    pub positions: Positions,
    /// Position of the first generated token.
    pub next: u32,
}

impl Prompt {
    /// Put `grid` (and a newline, where the family has one) in the place of the single `pad` in `ids`.
    ///
    /// # Errors
    /// If `ids` hold another number of pads, or there are no positions for so many tokens.
    pub fn lay_out(
        ids: &[u32],
        pad: u32,
        grid: VisualGrid,
        newline: bool,
        rope: VisualRope,
    ) -> Result<Self, ProcessorError> {
        let extra = usize::from(newline);
        if grid.is_empty() {
            return Err(ProcessorError::NoVisualTokens);
        }
        let layout = PromptLayout::expand(ids, pad, grid.len() + extra)?;
        let at = layout::positions(layout.before(), grid, extra + layout.after(), rope)?;
        let start = layout.visual.start;
        Ok(Self {
            positions: Positions { axes: at.axes },
            next: at.next,
            visual: start..start + grid.len(),
            video: layout.visual,
            ids: layout.ids,
        })
    }

    /// True for rows of text: neither visual tokens nor the newline.
    pub fn is_text(&self, row: usize) -> bool {
        !self.video.contains(&row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newline_stands_between_video_and_text() {
        let grid = VisualGrid { t: 2, h: 1, w: 2 };
        let lay = |newline, rope| Prompt::lay_out(&[5, 9, 6], 9, grid, newline, rope).unwrap();
        let prompt = lay(true, VisualRope::Sequential);
        assert_eq!(prompt.ids, [5, 9, 9, 9, 9, 9, 6]);
        assert_eq!((prompt.visual.clone(), prompt.video.clone(), prompt.next), (1..5, 1..6, 7));
        assert_eq!(prompt.positions.axes[2], [0, 1, 2, 3, 4, 5, 6]);
        let text: Vec<usize> = (0..7).filter(|row| prompt.is_text(*row)).collect();
        assert_eq!(text, [0, 6]);
        let without = lay(false, VisualRope::GRIDS);
        assert_eq!((without.visual.clone(), without.next), (without.video.clone(), 4));
        assert_eq!(without.positions.axes[0], [0, 1, 1, 2, 2, 3]);
        let none = VisualGrid { t: 0, h: 1, w: 2 };
        assert!(Prompt::lay_out(&[9], 9, none, true, VisualRope::Sequential).is_err());
    }
}
