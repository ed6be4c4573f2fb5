//! Turns frames into rows of patches.
//!
//! A row is one patch over one temporal grid: channel, frame of the pair, line, column. Rows come in the order temporal
//! grid, cell row, cell column, row in the cell, column in the cell, so that the patches of one visual token are contiguous.

use super::{FrameSize, Grid, ProcessorConfig, ProcessorError, resize::Resizer, sizes::with_longest_edge};

#[derive(Clone, Debug, PartialEq)]
pub struct Patches {
    /// Normalized values, `[t · h · w, 3 · temporal · patch²]` row by row.
    pub data: Vec<f32>,
    /// Temporal grids × rows × columns of patches.
    pub grid: Grid,
    /// Values per row.
    pub row: usize,
}

/// Collects frames one by one; only the patches are kept.
pub struct PatchBuilder {
    config: ProcessorConfig,
    target: FrameSize,
    /// One resize, or two in turn.
    resizers: Vec<Resizer>,
    /// Byte to normalized value, per channel.
    levels: Box<[[f32; 256]; 3]>,
    data: Vec<f32>,
    frames: usize,
    resized: Vec<u8>,
    between: Vec<u8>,
}

impl PatchBuilder {
    pub(super) fn new(config: ProcessorConfig, target: FrameSize) -> Result<Self, ProcessorError> {
        let factor = config.patch * config.merge;
        let FrameSize { height, width } = target;
        // Pixels of a fixed-size frame that fill no whole patch are ignored.
        let whole = |side: usize| config.fixed.is_some() || side.is_multiple_of(factor);
        if [height, width].iter().any(|side| *side < factor || !whole(*side)) {
            let reason = format!("both sides must be multiples of {factor} to become patches");
            return Err(ProcessorError::Size { height, width, reason });
        }
        let mut levels = Box::new([[0f32; 256]; 3]);
        for (c, table) in levels.iter_mut().enumerate() {
            // Rescale and normalize in one step, as transformers does: (v - 255 mean) / (255 std)
            let (mean, std) = (config.mean[c] * 255.0, config.std[c] * 255.0);
            for (v, level) in table.iter_mut().enumerate() {
                *level = (v as f32 - mean) / std;
            }
        }
        let [resized, between] = [Vec::new(), Vec::new()];
        Ok(Self {
            config,
            target,
            resizers: Vec::new(),
            levels,
            data: Vec::new(),
            frames: 0,
            resized,
            between,
        })
    }

    pub fn frames(&self) -> usize {
        self.frames
    }

    /// The size that frames are resized to.
    pub fn target(&self) -> FrameSize {
        self.target
    }

    /// Add the next frame: `rgb` of `[height, width, 3]` bytes. Frames may differ in size. [`ProcessorError::Frame`] if the
    /// buffer has the wrong length, [`ProcessorError::Size`] for an empty frame.
    pub fn push(&mut self, rgb: &[u8], height: usize, width: usize) -> Result<(), ProcessorError> {
        if height == 0 || width == 0 {
            return Err(ProcessorError::Size { height, width, reason: "a side is zero".into() });
        }
        let expected = height.saturating_mul(width).saturating_mul(3);
        if rgb.len() != expected {
            return Err(ProcessorError::Frame { height, width, expected, found: rgb.len() });
        }
        let from = FrameSize::new(height, width);
        if self.resizers.first().is_none_or(|resizer| resizer.from() != from) {
            let through = self.config.longest_edge.map(|edge| with_longest_edge(from, edge));
            let sizes: Vec<_> = [Some(from), through, Some(self.target)].into_iter().flatten().collect();
            let filter = self.config.filter;
            let steps = sizes.iter().zip(&sizes[1..]).filter(|(from, to)| from != to);
            self.resizers = steps.map(|(from, to)| Resizer::new(*from, *to, filter)).collect();
        }
        let mut resized = std::mem::take(&mut self.resized);
        let mut between = std::mem::take(&mut self.between);
        let mut current = rgb;
        for resizer in &mut self.resizers {
            resizer.resize(current, &mut resized);
            std::mem::swap(&mut resized, &mut between);
            current = &between;
        }
        self.place(current);
        (self.resized, self.between) = (resized, between);
        Ok(())
    }

    fn sides(&self) -> (usize, usize) {
        let factor = self.config.patch * self.config.merge;
        let side = |pixels: usize| pixels / factor * self.config.merge;
        (side(self.target.height), side(self.target.width))
    }

    fn per_grid(&self) -> usize {
        let (rows, columns) = self.sides();
        rows * columns
    }

    /// Copy a frame of the target size into its patches.
    fn place(&mut self, rgb: &[u8]) {
        let ProcessorConfig { patch, temporal, merge, .. } = self.config;
        let (row, per_grid) = (self.config.row(), self.per_grid());
        let in_pair = self.frames % temporal;
        if in_pair == 0 {
            self.data.resize(self.data.len() + per_grid * row, 0.0);
        }
        let start = self.data.len() - per_grid * row;
        let width = self.target.width;
        let (rows, columns) = self.sides();
        let cells = columns / merge;
        for (y, line) in rgb.chunks_exact(width * 3).take(rows * patch).enumerate() {
            let (patch_row, in_patch) = (y / patch, y % patch);
            let (cell_row, in_cell) = (patch_row / merge, patch_row % merge);
            for (patch_column, pixels) in line.chunks_exact(patch * 3).take(columns).enumerate() {
                let cell = cell_row * cells + patch_column / merge;
                let index = (cell * merge + in_cell) * merge + patch_column % merge;
                if self.config.colors_last {
                    let at = start + index * row + in_patch * patch * 3;
                    let colors = (0..3).cycle();
                    for ((out, value), c) in self.data[at..at + 3 * patch].iter_mut().zip(pixels).zip(colors)
                    {
                        *out = self.levels[c][usize::from(*value)];
                    }
                    continue;
                }
                for c in 0..3 {
                    let at = start + index * row + ((c * temporal + in_pair) * patch + in_patch) * patch;
                    for (out, pixel) in self.data[at..at + patch].iter_mut().zip(pixels.chunks_exact(3)) {
                        *out = self.levels[c][usize::from(pixel[c])];
                    }
                }
            }
        }
        self.frames += 1;
    }

    /// All patches; the last frame is repeated until its temporal grid is full. Fails with [`ProcessorError::NoFrames`] without
    /// frames.
    pub fn finish(mut self) -> Result<Patches, ProcessorError> {
        if self.frames == 0 {
            return Err(ProcessorError::NoFrames);
        }
        let ProcessorConfig { patch, temporal, .. } = self.config;
        let (row, per_grid, plane) = (self.config.row(), self.per_grid(), patch * patch);
        let filled = self.frames % temporal;
        if filled != 0 {
            let start = self.data.len() - per_grid * row;
            for patch in self.data[start..].chunks_exact_mut(row) {
                for channel in patch.chunks_exact_mut(temporal * plane) {
                    for missing in filled..temporal {
                        channel.copy_within((filled - 1) * plane..filled * plane, missing * plane);
                    }
                }
            }
        }
        let t = self.frames.div_ceil(temporal);
        let (h, w) = self.sides();
        let grid = Grid { t, h, w };
        Ok(Patches { data: self.data, grid, row })
    }
}

#[cfg(test)]
mod tests {
    use super::super::VideoProcessor;
    use super::*;

    /// Patches of 2 × 2 pixels whose values are the bytes themselves.
    fn plain() -> VideoProcessor {
        VideoProcessor::new(ProcessorConfig {
            patch: 2,
            mean: [0.0; 3],
            std: [1.0 / 255.0; 3],
            min_pixels: 16,
            ..ProcessorConfig::default()
        })
        .unwrap()
    }

    #[test]
    fn bad_frames_and_sizes_are_refused() {
        for target in [(0, 4), (4, 0), (6, 4), (2, 2)].map(|(h, w)| FrameSize::new(h, w)) {
            assert!(matches!(plain().patches(target), Err(ProcessorError::Size { .. })), "{target:?}");
        }
        let mut builder = plain().patches(FrameSize::new(4, 4)).unwrap();
        assert!(matches!(builder.push(&[0; 47], 4, 4), Err(ProcessorError::Frame { expected: 48, .. })));
        assert!(matches!(builder.push(&[], 0, 4), Err(ProcessorError::Size { .. })));
        assert!(builder.push(&[0; 3], usize::MAX, usize::MAX).is_err());
        assert_eq!(builder.frames(), 0);
        assert!(matches!(builder.finish(), Err(ProcessorError::NoFrames)));
    }
}
