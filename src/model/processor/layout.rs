//! Where the visual tokens stand: in the video, in the prompt, and in position space.
//!
//! Three orders meet here and are never derived from one another: the *cell* of a visual token (frame pair, row, column),
//! its *row* in the prompt (the decoder's cache slot), and its *position* (what rotary embedding sees).

use std::ops::Range;

use super::ProcessorError;

/// A grid of patches: frame pairs × rows × columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grid {
    /// Temporal grids (pairs of frames).
    pub t: usize,
    /// Rows of patches.
    pub h: usize,
    /// Columns of patches.
    pub w: usize,
}

impl Grid {
    /// Number of patches, none where it overflows.
    pub fn checked_len(&self) -> Option<usize> {
        self.t.checked_mul(self.h)?.checked_mul(self.w)
    }
}

/// The place of one visual token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cell {
    /// Frame pair.
    pub t: usize,
    /// Row of merged cells, from the top.
    pub row: usize,
    /// Column of merged cells, from the left.
    pub column: usize,
}

/// The grid of visual tokens: frame pairs × rows × columns of merged cells, flattened in that order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VisualGrid {
    /// Frame pairs.
    pub t: usize,
    /// Rows of merged cells.
    pub h: usize,
    /// Columns of merged cells.
    pub w: usize,
}

impl VisualGrid {
    /// The grid that remains when squares of `merge` × `merge` patches become one token.
    ///
    /// # Errors
    /// [`ProcessorError::Grid`] if the patches do not divide, or a side is zero.
    pub fn from_patches(grid: Grid, merge: usize) -> Result<Self, ProcessorError> {
        let fits = merge > 0 && grid.h.is_multiple_of(merge) && grid.w.is_multiple_of(merge);
        if !fits || grid.checked_len().is_none_or(|n| n == 0) {
            return Err(ProcessorError::Grid { t: grid.t, h: grid.h, w: grid.w, merge });
        }
        Ok(Self { t: grid.t, h: grid.h / merge, w: grid.w / merge })
    }

    /// The grid that remains when squares of `pool` × `pool` (at least 1) cells become one token, smaller ones at the edge.
    pub fn pooled(self, pool: usize) -> Self {
        let pool = pool.max(1);
        Self { t: self.t, h: self.h.div_ceil(pool), w: self.w.div_ceil(pool) }
    }

    /// Number of visual tokens.
    pub fn len(&self) -> usize {
        self.t * self.h * self.w
    }

    /// True where there is no visual token.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Visual tokens of one frame pair.
    pub fn per_frame(&self) -> usize {
        self.h * self.w
    }

    /// The cell of a visual token; none past the end.
    pub fn cell(&self, index: usize) -> Option<Cell> {
        if index >= self.len() {
            return None;
        }
        let within = index % self.per_frame();
        Some(Cell { t: index / self.per_frame(), row: within / self.w, column: within % self.w })
    }

    /// The visual token of a cell; none outside of the grid.
    pub fn index(&self, cell: Cell) -> Option<usize> {
        let inside = cell.t < self.t && cell.row < self.h && cell.column < self.w;
        inside.then(|| (cell.t * self.h + cell.row) * self.w + cell.column)
    }

    /// All cells in the order of the visual tokens.
    pub fn cells(self) -> impl Iterator<Item = Cell> {
        (0..self.len()).filter_map(move |i| self.cell(i))
    }

    /// The frames that a frame pair was made of, for `frames_per_pair` frames a pair and `n_frames` in all.
    pub fn frames_of(&self, t: usize, frames_per_pair: usize, n_frames: usize) -> Range<usize> {
        (t * frames_per_pair).min(n_frames)..((t + 1) * frames_per_pair).min(n_frames)
    }
}

/// A prompt with its visual tokens in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptLayout {
    /// All ids; visual tokens carry the pad id.
    pub ids: Vec<u32>,
    /// Rows of the visual tokens.
    pub visual: Range<usize>,
}

impl PromptLayout {
    /// Replace the single `pad` in `prompt` by `count` of them.
    ///
    /// # Errors
    /// [`ProcessorError::VideoSpans`] unless `prompt` holds exactly one `pad`; [`ProcessorError::NoVisualTokens`] if
    /// `count` is zero.
    pub fn expand(prompt: &[u32], pad: u32, count: usize) -> Result<Self, ProcessorError> {
        if count == 0 {
            return Err(ProcessorError::NoVisualTokens);
        }
        let mut pads = prompt.iter().enumerate().filter(|(_, id)| **id == pad).map(|(i, _)| i);
        let (Some(start), 0) = (pads.next(), pads.count()) else {
            let found = prompt.iter().filter(|id| **id == pad).count();
            return Err(ProcessorError::VideoSpans { found, pad });
        };
        let mut ids = Vec::with_capacity(prompt.len() - 1 + count);
        ids.extend_from_slice(&prompt[..start]);
        ids.resize(start + count, pad);
        ids.extend_from_slice(&prompt[start + 1..]);
        Ok(Self { ids, visual: start..start + count })
    }

    /// Number of text tokens before the video.
    pub fn before(&self) -> usize {
        self.visual.start
    }

    /// Number of text tokens after the video.
    pub fn after(&self) -> usize {
        self.ids.len() - self.visual.end
    }
}

/// How positions are given to visual tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum VisualRope {
    /// Original M-RoPE: time, row and column on three axes.
    ///
    /// t = floor(temporal grid · `seconds_per_grid` · `tokens_per_second`), all offset by the text before; the text after
    /// starts at the largest position + 1.
    Multimodal {
        /// Seconds of video in one temporal grid: frames per pair / frames per second as sampled.
        seconds_per_grid: f32,
        /// The checkpoint's `tokens_per_second`.
        tokens_per_second: f32,
    },
    /// Plain 1-D positions: every token, visual or not, one further.
    Sequential,
}

impl VisualRope {
    /// M-RoPE of Qwen2-VL, whose time axis counts temporal grids.
    pub const GRIDS: VisualRope = VisualRope::Multimodal { seconds_per_grid: 1.0, tokens_per_second: 1.0 };
}

/// The positions of a whole prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Positions {
    /// Time, row and column axis, one position per prompt row each. Text has the same on all three.
    pub axes: [Vec<u32>; 3],
    /// Position of the first generated token, on all axes.
    pub next: u32,
}

/// Positions of `before` text tokens, the visual tokens of `grid`, and `after` text tokens.
///
/// # Errors
/// [`ProcessorError::Positions`] if the times are not finite and positive, or positions leave the range of `u32`.
pub fn positions(
    before: usize,
    grid: VisualGrid,
    after: usize,
    rope: VisualRope,
) -> Result<Positions, ProcessorError> {
    let bad = |reason: String| ProcessorError::Positions { reason };
    let total = grid.len() + before + after;
    // a bound far above any context window that keeps all sums below in range
    const LIMIT: f32 = (1u32 << 30) as f32;
    if total as f32 >= LIMIT {
        return Err(bad(format!("{total} tokens are too many")));
    }
    let (start, mut axes) = (before as u32, [(); 3].map(|()| Vec::with_capacity(total)));
    for axis in &mut axes {
        axis.extend(0..start);
    }
    match rope {
        VisualRope::Sequential => {
            let end = start + grid.len() as u32;
            axes.iter_mut().for_each(|axis| axis.extend(start..end));
        }
        VisualRope::Multimodal { seconds_per_grid, tokens_per_second } => {
            let usable = |v: f32| v.is_finite() && v > 0.0;
            if !usable(seconds_per_grid) || !usable(tokens_per_second) {
                return Err(bad(format!(
                    "{seconds_per_grid} seconds per grid at {tokens_per_second} tokens per second is no time scale"
                )));
            }
            for cell in grid.cells() {
                // single precision and this order: the original multiplies a tensor of indices
                let time = (cell.t as f32 * seconds_per_grid) * tokens_per_second;
                if time >= LIMIT {
                    return Err(bad(format!("frame pair {} lies at position {time}", cell.t)));
                }
                for (axis, at) in axes.iter_mut().zip([time as u32, cell.row as u32, cell.column as u32]) {
                    axis.push(start + at);
                }
            }
        }
    }
    let following = axes.iter().filter_map(|axis| axis.iter().max()).max().map_or(0, |max| max + 1);
    let next = following + after as u32;
    for axis in &mut axes {
        axis.extend(following..next);
    }
    Ok(Positions { axes, next })
}

/// Seconds of video in one temporal grid of `frames_per_pair` frames sampled at `sample_fps` frames per second.
pub fn seconds_per_grid(frames_per_pair: usize, sample_fps: f64) -> f32 {
    (frames_per_pair as f64 / sample_fps) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRID: VisualGrid = VisualGrid { t: 2, h: 2, w: 3 };

    #[test]
    fn cells_and_indices_are_inverse() {
        for (i, cell) in GRID.cells().enumerate() {
            assert_eq!(GRID.index(cell), Some(i));
        }
        assert_eq!(GRID.cells().count(), GRID.len());
        assert_eq!(GRID.cell(7), Some(Cell { t: 1, row: 0, column: 1 }));
        assert_eq!(GRID.cell(12), None);
        assert_eq!(GRID.index(Cell { t: 0, row: 2, column: 0 }), None);
        assert_eq!(GRID.frames_of(1, 2, 3), 2..3);
    }

    #[test]
    fn one_pad_becomes_many() {
        let layout = PromptLayout::expand(&[1, 9, 2, 3], 9, 3).unwrap();
        assert_eq!(layout.ids, [1, 9, 9, 9, 2, 3]);
        assert_eq!((layout.visual.clone(), layout.before(), layout.after()), (1..4, 1, 2));
        for bad in [&[1, 2][..], &[9, 1, 9], &[]] {
            assert!(matches!(PromptLayout::expand(bad, 9, 3), Err(ProcessorError::VideoSpans { .. })));
        }
        assert!(matches!(PromptLayout::expand(&[9], 9, 0), Err(ProcessorError::NoVisualTokens)));
    }

    #[test]
    fn text_continues_after_the_largest_position() {
        let rope = VisualRope::Multimodal { seconds_per_grid: 1.0, tokens_per_second: 2.0 };
        let p = positions(3, GRID, 2, rope).unwrap();
        assert_eq!(p.axes[0], [0, 1, 2, 3, 3, 3, 3, 3, 3, 5, 5, 5, 5, 5, 5, 6, 7]);
        assert_eq!(p.axes[1], [0, 1, 2, 3, 3, 3, 4, 4, 4, 3, 3, 3, 4, 4, 4, 6, 7]);
        assert_eq!(p.axes[2], [0, 1, 2, 3, 4, 5, 3, 4, 5, 3, 4, 5, 3, 4, 5, 6, 7]);
        assert_eq!(p.next, 8);
    }

    #[test]
    fn sequential_positions_are_a_range() {
        let p = positions(3, GRID, 2, VisualRope::Sequential).unwrap();
        let range: Vec<u32> = (0..17).collect();
        assert!(p.axes.iter().all(|axis| *axis == range));
        assert_eq!(p.next, 17);
    }

    #[test]
    fn impossible_times_are_refused() {
        for (seconds_per_grid, tokens_per_second) in
            [(f32::NAN, 2.0), (f32::INFINITY, 2.0), (-1.0, 2.0), (0.0, 2.0), (1.0, 0.0), (1e30, 1e5)]
        {
            let rope = VisualRope::Multimodal { seconds_per_grid, tokens_per_second };
            assert!(positions(1, GRID, 1, rope).is_err(), "{seconds_per_grid} {tokens_per_second}");
        }
    }

    #[test]
    fn patches_must_divide_into_cells() {
        let grid = |t, h, w| VisualGrid::from_patches(Grid { t, h, w }, 2);
        assert_eq!(grid(2, 4, 6).unwrap(), GRID);
        assert!(grid(1, 3, 4).is_err() && grid(0, 4, 4).is_err() && grid(1, 0, 4).is_err());
        assert!(grid(usize::MAX, 4, 4).is_err());
        assert!(VisualGrid::from_patches(Grid { t: 1, h: 4, w: 4 }, 0).is_err());
    }
}
