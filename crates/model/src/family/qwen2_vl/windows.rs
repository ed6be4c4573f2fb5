//! Attention windows of one temporal grid.
//!
//! Windows are squares of merged cells from the top left; those at the right and bottom edge may be smaller, so there are at
//! most four sizes. Cells are ordered so that windows of one size are adjacent and can be computed as one batch;
//! [`Windows::restore`] restores the reading order.

use std::ops::Range;

/// Windows of equal size, adjacent in the windowed order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WindowBatch {
    pub count: usize,
    /// Rows (cells or patches) in each of them.
    pub size: usize,
}

/// The windowed order of one temporal grid.
#[derive(Clone, Debug)]
pub(super) struct Windows {
    /// For each index in the windowed order, the cell in reading order.
    pub order: Vec<u32>,
    /// For each cell in reading order, its index in the windowed order.
    pub(crate) restore: Vec<u32>,
    /// The batches in order, in cells; together they cover all cells.
    pub batches: Vec<WindowBatch>,
}

impl Windows {
    /// Windows of `side` × `side` cells (at least 1) over `rows` × `columns` cells.
    pub(super) fn new(rows: usize, columns: usize, side: usize) -> Self {
        let (mut order, mut batches) = (Vec::with_capacity(rows * columns), Vec::new());
        // Whole windows, then the remainder at the edge, on each axis.
        let cuts = |length: usize| {
            let whole = length / side;
            [(0, whole, side), (whole * side, usize::from(!length.is_multiple_of(side)), length % side)]
        };
        for (top, down, height) in cuts(rows) {
            for (left, across, width) in cuts(columns) {
                let count = down * across;
                if count == 0 {
                    continue;
                }
                for window in 0..count {
                    let (y, x) = (top + window / across * height, left + window % across * width);
                    for row in y..y + height {
                        order.extend((x..x + width).map(|column| (row * columns + column) as u32));
                    }
                }
                batches.push(WindowBatch { count, size: height * width });
            }
        }
        let mut restore = vec![0; order.len()];
        for (index, cell) in order.iter().enumerate() {
            restore[*cell as usize] = index as u32;
        }
        Self { order, restore, batches }
    }

    /// The windows in order, in patches, of which each cell has `per_cell`.
    pub(super) fn ranges(&self, per_cell: usize) -> Vec<Range<usize>> {
        let sizes = self.batches.iter().flat_map(|batch| std::iter::repeat_n(batch.size, batch.count));
        let mut end = 0;
        let range = |size: usize| {
            end += size * per_cell;
            end - size * per_cell..end
        };
        sizes.map(range).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_is_in_one_window() {
        for (rows, columns) in [(1, 1), (4, 4), (5, 7), (3, 9), (8, 2), (13, 13)] {
            let windows = Windows::new(rows, columns, 4);
            let mut seen = windows.order.clone();
            seen.sort_unstable();
            assert_eq!(seen, (0..(rows * columns) as u32).collect::<Vec<_>>());
            let mut at = 0;
            for batch in &windows.batches {
                for _ in 0..batch.count {
                    let cells = &windows.order[at..at + batch.size];
                    let window = |c: u32| (c as usize / columns / 4, c as usize % columns / 4);
                    assert!(cells.iter().all(|c| window(*c) == window(cells[0])), "{rows}x{columns}");
                    at += batch.size;
                }
            }
            assert_eq!(at, rows * columns);
            for (cell, index) in windows.restore.iter().enumerate() {
                assert_eq!(windows.order[*index as usize] as usize, cell);
            }
        }
    }

    #[test]
    fn ranges_follow_each_other() {
        assert_eq!(Windows::new(5, 7, 4).ranges(4), [0..64, 64..112, 112..128, 128..140]);
        assert_eq!(Windows::new(8, 4, 4).ranges(1), [0..16, 16..32]);
    }

    #[test]
    fn there_are_at_most_four_sizes() {
        let sizes: Vec<_> = Windows::new(5, 7, 4).batches.iter().map(|b| (b.count, b.size)).collect();
        assert_eq!(sizes, [(1, 16), (1, 12), (1, 4), (1, 3)]);
        assert_eq!(Windows::new(8, 8, 4).batches, [WindowBatch { count: 4, size: 16 }]);
    }
}
