//! The visual tokens in the video, in the prompt, and in position space.
//!
//! Three coordinates are kept apart and never derived from one another: the *cell* of a visual token (frame pair, row,
//! column), its *row* in the prompt (the decoder's cache slot), and its *position* (the input of the rotary embedding).

use std::ops::Range;

use super::ProcessorError;
use specreel_tensor::VisualSpans;

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
    /// Number of patches; `None` if it overflows.
    pub(crate) fn checked_len(&self) -> Option<usize> {
        self.t.checked_mul(self.h)?.checked_mul(self.w)
    }
}

/// The coordinates of one visual token.
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
    /// The grid of a patch grid in which squares of `merge` × `merge` patches become one token. [`ProcessorError::Grid`] if the
    /// patches do not divide, or a side is zero.
    pub fn from_patches(grid: Grid, merge: usize) -> Result<Self, ProcessorError> {
        let fits = merge > 0 && grid.h.is_multiple_of(merge) && grid.w.is_multiple_of(merge);
        if !fits || grid.checked_len().is_none_or(|n| n == 0) {
            return Err(ProcessorError::Grid { t: grid.t, h: grid.h, w: grid.w, merge });
        }
        Ok(Self { t: grid.t, h: grid.h / merge, w: grid.w / merge })
    }

    /// The grid in which squares of `pool` × `pool` (at least 1) cells become one token, smaller ones at the edge.
    pub(crate) fn pooled(self, pool: usize) -> Self {
        let pool = pool.max(1);
        Self { t: self.t, h: self.h.div_ceil(pool), w: self.w.div_ceil(pool) }
    }

    /// Time × rows × columns.
    pub fn shape(&self) -> [usize; 3] {
        [self.t, self.h, self.w]
    }

    /// Number of visual tokens.
    pub fn len(&self) -> usize {
        self.t * self.h * self.w
    }

    /// True if there is no visual token.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Visual tokens of one frame pair.
    pub(crate) fn per_frame(&self) -> usize {
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

    /// All cells in the order of the visual tokens.
    pub fn cells(self) -> impl Iterator<Item = Cell> {
        (0..self.len()).filter_map(move |i| self.cell(i))
    }
}

/// A prompt's ids with every `pad` repeated, the `i`-th `counts[i]` times, and the rows of each repetition.
/// [`ProcessorError::VideoSpans`] unless `prompt` holds one `pad` per count; [`ProcessorError::NoVisualTokens`] if a count is
/// zero, or there is none.
pub fn expand(
    prompt: &[u32],
    pad: u32,
    counts: &[usize],
) -> Result<(Vec<u32>, Vec<Range<usize>>), ProcessorError> {
    if counts.is_empty() || counts.contains(&0) {
        return Err(ProcessorError::NoVisualTokens);
    }
    let found = prompt.iter().filter(|id| **id == pad).count();
    if found != counts.len() {
        return Err(ProcessorError::VideoSpans { found, expected: counts.len(), pad });
    }
    let mut ids = Vec::with_capacity(prompt.len() + counts.iter().sum::<usize>());
    let (mut spans, mut counts) = (Vec::with_capacity(found), counts.iter());
    for &id in prompt {
        let count = if id == pad { counts.next().copied() } else { None };
        spans.extend(count.map(|count| ids.len()..ids.len() + count));
        ids.resize(ids.len() + count.unwrap_or(1), id);
    }
    Ok((ids, spans))
}

/// How the positions of visual tokens are computed.
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
    /// 1-D positions, incremented by every token.
    Sequential,
}

impl VisualRope {
    /// M-RoPE of Qwen2-VL, with time in temporal grids.
    pub const GRIDS: VisualRope = VisualRope::Multimodal { seconds_per_grid: 1.0, tokens_per_second: 1.0 };
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptPositions {
    /// Time, row and column axis, one position per prompt row. Text has the same position on all three.
    pub axes: [Vec<u32>; 3],
    /// Position of the first generated token, on all axes.
    pub next: u32,
}

/// Positions of a prompt of `rows` rows whose visual tokens are the cells of `grid`; all other rows are text.
///
/// On three axes, time is counted from the first frame pair of each span, and the text after a span starts at its largest
/// position + 1. [`ProcessorError::Positions`] if the spans do not hold the grid (on three axes: whole frame pairs of it), the
/// times are not finite and positive, or positions leave the range of `u32`.
pub fn positions(
    rows: usize,
    visual: &VisualSpans,
    grid: VisualGrid,
    rope: VisualRope,
) -> Result<PromptPositions, ProcessorError> {
    let bad = |reason: String| ProcessorError::Positions { reason };
    // Far above any context window, and low enough that no sum below overflows.
    const LIMIT: f32 = (1u32 << 30) as f32;
    if rows as f32 >= LIMIT {
        return Err(bad(format!("too many tokens ({rows})")));
    }
    if visual.len() != grid.len() || visual.end() > rows {
        return Err(bad(format!("{} visual tokens in {rows} rows, expected {}", visual.len(), grid.len())));
    }
    let mut axes = [(); 3].map(|()| Vec::with_capacity(rows));
    let (mut next, mut row, mut cells) = (0u32, 0, grid.cells());
    let text = |axes: &mut [Vec<u32>; 3], next: u32, rows: usize| {
        let end = next + rows as u32;
        axes.iter_mut().for_each(|axis| axis.extend(next..end));
        end
    };
    for span in visual.ranges() {
        next = text(&mut axes, next, span.start - row);
        row = span.end;
        let VisualRope::Multimodal { seconds_per_grid, tokens_per_second } = rope else {
            next = text(&mut axes, next, span.len());
            continue;
        };
        let usable = |v: f32| v.is_finite() && v > 0.0;
        if !usable(seconds_per_grid) || !usable(tokens_per_second) {
            return Err(bad(format!(
                "invalid time scale: {seconds_per_grid} seconds per grid, {tokens_per_second} tokens per second"
            )));
        }
        if !span.len().is_multiple_of(grid.per_frame()) {
            return Err(bad(format!(
                "a span of {} rows does not hold whole frames of {}",
                span.len(),
                grid.per_frame()
            )));
        }
        let (start, mut first) = (next, None);
        for cell in cells.by_ref().take(span.len()) {
            let first = *first.get_or_insert(cell.t);
            // Single precision and this order, as in the original.
            let time = ((cell.t - first) as f32 * seconds_per_grid) * tokens_per_second;
            if time >= LIMIT {
                return Err(bad(format!("frame pair {} is at position {time}", cell.t)));
            }
            for (axis, at) in axes.iter_mut().zip([time as u32, cell.row as u32, cell.column as u32]) {
                axis.push(start + at);
                next = next.max(start + at + 1);
            }
        }
        if next > 1 << 31 {
            return Err(bad(format!("the video reaches position {next}")));
        }
    }
    let next = text(&mut axes, next, rows - row);
    Ok(PromptPositions { axes, next })
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
    fn cells_are_counted_by_frame_row_and_column() {
        assert_eq!(GRID.cells().count(), GRID.len());
        assert_eq!(GRID.cell(7), Some(Cell { t: 1, row: 0, column: 1 }));
        assert_eq!(GRID.cell(12), None);
    }

    #[test]
    fn every_pad_is_repeated() {
        let (ids, spans) = expand(&[1, 9, 2, 3], 9, &[3]).unwrap();
        assert_eq!(
            (ids.as_slice(), spans.as_slice()),
            (&[1, 9, 9, 9, 2, 3][..], std::slice::from_ref(&(1..4)))
        );
        let (ids, spans) = expand(&[9, 2, 9], 9, &[1, 2]).unwrap();
        assert_eq!((ids.as_slice(), spans.as_slice()), (&[9, 2, 9, 9][..], &[0..1, 2..4][..]));
        for bad in [&[1, 2][..], &[9, 1, 9], &[]] {
            assert!(matches!(expand(bad, 9, &[3]), Err(ProcessorError::VideoSpans { expected: 1, .. })));
        }
        assert!(matches!(expand(&[9], 9, &[0]), Err(ProcessorError::NoVisualTokens)));
        assert!(matches!(expand(&[], 9, &[]), Err(ProcessorError::NoVisualTokens)));
    }

    #[test]
    fn each_span_starts_its_own_time() {
        let rope = VisualRope::Multimodal { seconds_per_grid: 1.0, tokens_per_second: 2.0 };
        let spans = VisualSpans::new([1..7, 9..15], 16).unwrap();
        let p = positions(16, &spans, GRID, rope).unwrap();
        assert_eq!(p.axes[0], [0, 1, 1, 1, 1, 1, 1, 4, 5, 6, 6, 6, 6, 6, 6, 9]);
        assert_eq!(p.axes[1], [0, 1, 1, 1, 2, 2, 2, 4, 5, 6, 6, 6, 7, 7, 7, 9]);
        assert_eq!(p.axes[2], [0, 1, 2, 3, 1, 2, 3, 4, 5, 6, 7, 8, 6, 7, 8, 9]);
        assert_eq!(p.next, 10);
        let plain = positions(16, &spans, GRID, VisualRope::Sequential).unwrap();
        assert_eq!(plain.axes[0], (0..16).collect::<Vec<u32>>());
        // Half a frame, not enough tokens, and rows past the prompt's end.
        let halves = VisualSpans::new([1..4, 5..14], 16).unwrap();
        assert!(positions(16, &halves, GRID, rope).is_err());
        assert!(positions(16, &halves, GRID, VisualRope::Sequential).is_ok());
        assert!(positions(16, &VisualSpans::from(1..7), GRID, rope).is_err());
        assert!(positions(12, &VisualSpans::from(1..13), GRID, rope).is_err());
    }

    #[test]
    fn impossible_times_are_refused() {
        for (seconds_per_grid, tokens_per_second) in
            [(f32::NAN, 2.0), (f32::INFINITY, 2.0), (-1.0, 2.0), (0.0, 2.0), (1.0, 0.0), (1e30, 1e5)]
        {
            let rope = VisualRope::Multimodal { seconds_per_grid, tokens_per_second };
            assert!(
                positions(14, &VisualSpans::from(1..13), GRID, rope).is_err(),
                "{seconds_per_grid} {tokens_per_second}"
            );
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
