//! A drawing of one frame: the drafter's visual tokens, and the scores of the cells.

use super::colors::{BRIGHT, DARK};
use super::{drafter_view::DrafterView, *};

/// Share of a frame's lightness that shows through its heat.
const TEXTURE: f32 = 0.15;

pub struct Panel<'a> {
    pub view: &'a DrafterView,
    pub frame: usize,
    /// Its picture, of the size of its cells.
    pub still: &'a RgbImage,
    pub cell: u32,
}

impl Panel<'_> {
    /// The frame itself: kept cells are clear and outlined, dropped ones dim.
    pub fn seen(&self, canvas: &mut RgbImage, at: (u32, u32)) {
        for (row, column, kept) in self.cells() {
            self.paint(canvas, at, row, column, |color| if kept { color } else { colors::dim(color) });
        }
        self.outlines(canvas, at);
    }

    /// The scores as colors. The frame shows through without changing a cell's mean. Kept cells are outlined.
    pub fn heat(&self, canvas: &mut RgbImage, at: (u32, u32)) {
        let Some(heat) = self.view.heat() else { return };
        for (row, column, _) in self.cells() {
            let token = self.view.token(self.frame, row as usize, column as usize);
            let color_of_heat = colors::heat(heat[token]);
            let mean = self.mean(row, column);
            self.paint(canvas, at, row, column, |color| {
                colors::shift(color_of_heat, (colors::luma(color) - mean) * TEXTURE)
            });
        }
        self.outlines(canvas, at);
    }

    /// Row, column and whether it is kept, of every cell.
    fn cells(&self) -> impl Iterator<Item = (u32, u32, bool)> {
        let (view, frame) = (self.view, self.frame);
        let [_, rows, columns] = view.grid;
        (0..rows).flat_map(move |row| {
            (0..columns).map(move |column| {
                let kept = view.kept.get(view.token(frame, row, column)).copied().unwrap_or(false);
                (row as u32, column as u32, kept)
            })
        })
    }

    fn pixels(&self, row: u32, column: u32) -> impl Iterator<Item = (u32, u32, [u8; 3])> {
        let (cell, still) = (self.cell, self.still);
        (0..cell).flat_map(move |dy| {
            (0..cell).filter_map(move |dx| {
                let (x, y) = (column * cell + dx, row * cell + dy);
                still.get_pixel_checked(x, y).map(|pixel| (x, y, pixel.0))
            })
        })
    }

    fn mean(&self, row: u32, column: u32) -> f32 {
        let sum: f32 = self.pixels(row, column).map(|(_, _, color)| colors::luma(color)).sum();
        sum / (self.cell * self.cell) as f32
    }

    fn paint(
        &self,
        canvas: &mut RgbImage,
        at: (u32, u32),
        row: u32,
        column: u32,
        color: impl Fn([u8; 3]) -> [u8; 3],
    ) {
        for (x, y, from) in self.pixels(row, column) {
            if let Some(pixel) = canvas.get_pixel_mut_checked(at.0 + x, at.1 + y) {
                *pixel = Rgb(color(from));
            }
        }
    }

    fn outlines(&self, canvas: &mut RgbImage, at: (u32, u32)) {
        for (row, column, _) in self.cells().filter(|cell| cell.2) {
            outline(canvas, (at.0 + column * self.cell, at.1 + row * self.cell), self.cell);
        }
    }
}

/// Widths of the bright outline of a kept cell and of the dark line inside it.
fn lines(cell: u32) -> (u32, u32) {
    match cell {
        0..4 => (0, 0),
        4..10 => (1, 0),
        10..32 => (1, 1),
        _ => (2, 1),
    }
}

/// The outline of a kept cell: a bright line along its edge, and a dark one inside, visible on bright and dark ground.
pub fn outline(canvas: &mut RgbImage, at: (u32, u32), cell: u32) {
    let (bright, dark) = lines(cell);
    for (y, x) in (0..cell).flat_map(|y| (0..cell).map(move |x| (y, x))) {
        let depth = x.min(y).min(cell - 1 - x).min(cell - 1 - y);
        let color = match depth {
            d if d < bright => BRIGHT,
            d if d < bright + dark => DARK,
            _ => continue,
        };
        if let Some(pixel) = canvas.get_pixel_mut_checked(at.0 + x, at.1 + y) {
            *pixel = Rgb(color);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::drafter_view::tests::view, *};

    const CELL: u32 = 12;

    fn draw(still: &RgbImage, heat: bool) -> RgbImage {
        let view = view();
        let panel = Panel { view: &view, frame: 1, still, cell: CELL };
        let mut canvas = RgbImage::new(2 * CELL + 6, 2 * CELL + 6);
        if heat {
            panel.heat(&mut canvas, (3, 3))
        } else {
            panel.seen(&mut canvas, (3, 3))
        }
        canvas
    }

    /// Mean brightness of the inner part of a cell.
    fn brightness(canvas: &RgbImage, row: u32, column: u32) -> f32 {
        let inner = 3..CELL - 3;
        let places = inner.clone().flat_map(|y| inner.clone().map(move |x| (x, y)));
        let lumas: Vec<f32> = places
            .map(|(x, y)| colors::luma(canvas.get_pixel(3 + column * CELL + x, 3 + row * CELL + y).0))
            .collect();
        lumas.iter().sum::<f32>() / lumas.len() as f32
    }

    #[test]
    fn kept_cells_are_clear_and_outlined_and_dropped_ones_dim() {
        let still = RgbImage::from_pixel(2 * CELL, 2 * CELL, Rgb([120, 130, 140]));
        let canvas = draw(&still, false);
        for column in 0..2 {
            assert!(brightness(&canvas, 1, column) > 2.0 * brightness(&canvas, 0, column));
            let corner = |row: u32| canvas.get_pixel(3 + column * CELL, 3 + row * CELL).0;
            assert_eq!((corner(1), corner(0)), (BRIGHT, colors::dim([120, 130, 140])));
        }
        assert_eq!(canvas.get_pixel(9, 21).0, [120, 130, 140], "kept cells are unchanged");
        assert_eq!(canvas.get_pixel(2, 2).0, [0, 0, 0], "nothing is drawn outside");
    }

    #[test]
    fn heat_is_brightness_whatever_the_frame_shows() {
        let chequered = RgbImage::from_fn(2 * CELL, 2 * CELL, |x, y| Rgb([((x + y) % 2 * 255) as u8; 3]));
        for still in [RgbImage::from_pixel(2 * CELL, 2 * CELL, Rgb([250; 3])), chequered] {
            let canvas = draw(&still, true);
            let cells =
                [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(row, column)| brightness(&canvas, row, column));
            assert!(cells.windows(2).all(|pair| pair[0] < pair[1]), "{cells:?}");
        }
    }

    #[test]
    fn small_cells_have_thin_outlines_or_none() {
        assert_eq!([1, 4, 10, 32, 56].map(lines), [(0, 0), (1, 0), (1, 1), (2, 1), (2, 1)]);
    }
}
