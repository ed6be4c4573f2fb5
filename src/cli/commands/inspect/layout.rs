//! Positions in the picture: title, tiles in rows, legend. Pure arithmetic.
//!
//! A tile is one frame: a label, and below it one panel, or two if there are scores. A cell of a panel is a square, one visual
//! token.

use super::*;

/// Space around everything, and between tiles.
const MARGIN: u32 = 16;
/// Space between the two panels of a tile.
const SEAM: u32 = 4;
/// A line of text with the space below it.
pub const LINE: u32 = font::HEIGHT + 6;
/// The title with the space below it.
const HEAD: u32 = LINE + 8;
/// Maximum width and height, as far as cells of one pixel allow.
const MOST: u32 = 3200;
const LARGEST_CELL: u32 = 56;
/// The preferred ratio of width to height.
const ASPECT: f64 = 1.6;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content {
    pub tiles: usize,
    pub rows: usize,
    pub columns: usize,
    /// Panels of a tile, 1 or 2.
    pub panels: u32,
    /// Pixels of the widest label of a tile.
    pub label: u32,
    /// Pixels of the widest line of title and legend.
    pub text: u32,
    pub legend: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    content: Content,
    pub cell: u32,
    pub per_row: usize,
}

impl Layout {
    /// The largest cells that fit, with the number of tiles per row that gives the best shape.
    pub fn of(content: Content) -> Layout {
        let content = Content {
            tiles: content.tiles.max(1),
            rows: content.rows.max(1),
            columns: content.columns.max(1),
            // Longer lines are cut off.
            text: content.text.min(MOST - 2 * MARGIN),
            label: content.label.min(MOST - 2 * MARGIN),
            ..content
        };
        let choices = (1..=content.tiles).map(|per_row| {
            let mut layout = Layout { content, cell: 1, per_row };
            layout.cell = layout.largest_cell();
            layout
        });
        let better = |a: &Layout, b: &Layout| {
            let by_cell = b.fitting_cell().cmp(&a.fitting_cell());
            by_cell.then(a.misshape().total_cmp(&b.misshape()))
        };
        choices.min_by(better).unwrap_or(Layout { content, cell: 1, per_row: 1 })
    }

    pub fn size(&self) -> (u32, u32) {
        let tiles = self.per_row as u32 * (self.pitch() + MARGIN) - MARGIN;
        let rows = self.lines() * (self.tile_height() + MARGIN);
        let text = HEAD + self.content.legend * LINE;
        (tiles.max(self.content.text) + 2 * MARGIN, rows + text + 2 * MARGIN)
    }

    pub fn panel_size(&self) -> (u32, u32) {
        (self.content.columns as u32 * self.cell, self.content.rows as u32 * self.cell)
    }

    pub fn title(&self) -> (u32, u32) {
        (MARGIN, MARGIN)
    }

    pub fn label(&self, tile: usize) -> (u32, u32) {
        let (row, column) = ((tile / self.per_row) as u32, (tile % self.per_row) as u32);
        (MARGIN + column * (self.pitch() + MARGIN), MARGIN + HEAD + row * (self.tile_height() + MARGIN))
    }

    pub fn panel(&self, tile: usize, panel: u32) -> (u32, u32) {
        let (x, y) = self.label(tile);
        (x + panel * (self.panel_size().0 + SEAM), y + LINE)
    }

    pub fn legend(&self, line: u32) -> (u32, u32) {
        (MARGIN, MARGIN + HEAD + self.lines() * (self.tile_height() + MARGIN) + line * LINE)
    }

    fn lines(&self) -> u32 {
        self.content.tiles.div_ceil(self.per_row) as u32
    }

    fn pitch(&self) -> u32 {
        let panels = self.content.panels;
        (panels * self.panel_size().0 + (panels - 1) * SEAM).max(self.content.label)
    }

    fn tile_height(&self) -> u32 {
        LINE + self.panel_size().1
    }

    /// The largest cell with which the picture is not too large; at least one pixel.
    fn largest_cell(&self) -> u32 {
        let fits = |cell: &u32| {
            let (width, height) = Layout { cell: *cell, ..*self }.size();
            width <= MOST && height <= MOST
        };
        (2..=LARGEST_CELL).rev().find(fits).unwrap_or(1)
    }

    /// The cell, or 0 if the picture is too large even so.
    fn fitting_cell(&self) -> u32 {
        let (width, height) = self.size();
        if width.max(height) > MOST { 0 } else { self.cell }
    }

    /// Distance from the preferred shape and from full rows.
    fn misshape(&self) -> f64 {
        let (width, height) = self.size();
        let empty = (self.per_row - (self.content.tiles - 1) % self.per_row - 1) as f64;
        (f64::from(width) / f64::from(height) / ASPECT).ln().abs() + 0.5 * empty / self.per_row as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(tiles: usize, rows: usize, columns: usize, panels: u32) -> Content {
        Content { tiles, rows, columns, panels, label: 144, text: 600, legend: 3 }
    }

    #[test]
    fn pictures_are_not_too_large_and_tiles_do_not_overlap() {
        for tiles in [1, 2, 5, 6, 8, 64] {
            for (rows, columns) in [(1, 1), (4, 4), (27, 48), (1, 200), (60, 3)] {
                for panels in [1, 2] {
                    let layout = Layout::of(content(tiles, rows, columns, panels));
                    let (width, height) = layout.size();
                    let (w, h) = layout.panel_size();
                    let what = format!("{tiles} {rows} {columns} {panels} {layout:?} {width} {height}");
                    assert!(width <= MOST && height <= MOST, "{what}");
                    assert!((1..=LARGEST_CELL).contains(&layout.cell), "{what}");
                    let corners: Vec<(u32, u32)> = (0..tiles)
                        .flat_map(|tile| (0..panels).map(move |panel| (tile, panel)))
                        .map(|(tile, panel)| layout.panel(tile, panel))
                        .collect();
                    for (i, a) in corners.iter().enumerate() {
                        assert!(a.0 + w <= width && a.1 + h <= layout.legend(0).1, "{what}");
                        for b in &corners[..i] {
                            assert!(a.0.abs_diff(b.0) >= w || a.1.abs_diff(b.1) >= h, "{what}");
                        }
                    }
                    assert!(layout.legend(3).1 <= height, "{what}");
                }
            }
        }
    }

    #[test]
    fn few_small_frames_have_large_cells_in_full_rows() {
        let layout = Layout::of(content(6, 4, 4, 2));
        assert_eq!(layout.cell, LARGEST_CELL);
        assert_eq!(6 % layout.per_row, 0);
        let (width, height) = layout.size();
        assert!(width > height, "{width} {height}");
        assert!((8..=12).contains(&Layout::of(content(64, 4, 4, 1)).per_row));
    }

    #[test]
    fn many_large_frames_keep_visible_cells() {
        assert!(Layout::of(content(64, 27, 48, 2)).cell >= 6);
        assert_eq!(Layout::of(content(0, 0, 0, 1)).per_row, 1);
        assert_eq!(Layout::of(content(64, 2, 5000, 1)).cell, 1);
    }
}
