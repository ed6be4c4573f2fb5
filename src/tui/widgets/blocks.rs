//! Pictures as half-blocks: two pixels per character, the upper one as its color, the lower one as its background.

use std::{ops::Range, sync::Arc};

use ratatui::{buffer::Buffer, layout::Rect, style::Color};

use super::Slot;
use crate::look::ColorDepth;
use specreel_video::Frame;

/// Half-blocks at once; a graphics protocol draws over them later.
pub(crate) fn picture(
    still: &Arc<Frame>,
    colors: ColorDepth,
    frame: &mut super::Frame<'_>,
    area: Rect,
) -> Option<Slot> {
    if area.is_empty() {
        return None;
    }
    draw(still, colors, frame.buffer_mut(), fit(still, area));
    Some(Slot { area, frame: Arc::clone(still) })
}

/// The largest centered area with the frame's aspect ratio, for cells that are twice as high as wide.
fn fit(frame: &Frame, area: Rect) -> Rect {
    let (w, h) = (u64::from(frame.width.max(1)), u64::from(frame.height.max(1)));
    let (columns, rows) = (u64::from(area.width), u64::from(area.height));
    let wide = (2 * rows * w).div_ceil(h).min(columns);
    let high = (columns * h).div_ceil(2 * w).min(rows);
    let (width, height) = (wide as u16, high as u16);
    Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height }
}

fn draw(frame: &Frame, depth: ColorDepth, buffer: &mut Buffer, area: Rect) {
    for row in 0..area.height {
        for column in 0..area.width {
            let (x, y) = (share(column, area.width), share(row, area.height));
            let middle = (y.start + y.end) / 2.0;
            let upper = color(mean(frame, x.clone(), y.start..middle), depth);
            let lower = color(mean(frame, x, middle..y.end), depth);
            if let Some(cell) = buffer.cell_mut((area.x + column, area.y + row)) {
                cell.set_symbol("▀").set_fg(upper).set_bg(lower);
            }
        }
    }
}

/// Part `at` of `n` equal ones of the whole, 0 to 1.
fn share(at: u16, n: u16) -> Range<f64> {
    let n = f64::from(n.max(1));
    f64::from(at) / n..(f64::from(at) + 1.0) / n
}

pub(crate) fn mean(frame: &Frame, x: Range<f64>, y: Range<f64>) -> [u8; 3] {
    let pixels = |range: Range<f64>, n: u32| {
        let n = n as usize;
        let first = ((range.start * n as f64) as usize).min(n.saturating_sub(1));
        first..((range.end * n as f64).round() as usize).clamp(first + 1, n.max(first + 1))
    };
    let (columns, rows) = (pixels(x, frame.width), pixels(y, frame.height));
    let (mut sum, mut count) = ([0u64; 3], 0u64);
    for row in rows {
        let at = |column: usize| 3 * (row * frame.width as usize + column);
        let Some(line) = frame.rgb.get(at(columns.start)..at(columns.end)) else { continue };
        for pixel in line.chunks_exact(3) {
            for (sum, value) in sum.iter_mut().zip(pixel) {
                *sum += u64::from(*value);
            }
            count += 1;
        }
    }
    sum.map(|sum| (sum / count.max(1)) as u8)
}

/// A true color, or the nearest of the 240 fixed ones.
pub(crate) fn color([r, g, b]: [u8; 3], depth: ColorDepth) -> Color {
    if depth == ColorDepth::True {
        return Color::Rgb(r, g, b);
    }
    let square = |a: u8, b: u8| i32::from(a.abs_diff(b)).pow(2);
    let far = |c: [u8; 3]| square(c[0], r) + square(c[1], g) + square(c[2], b);
    // A 6 × 6 × 6 cube, then 24 grays.
    const STEPS: [u8; 6] = [0, 95, 135, 175, 215, 255];
    let step = |v: u8| (0..6).min_by_key(|i| v.abs_diff(STEPS[*i])).unwrap_or(0);
    let (i, j, k) = (step(r), step(g), step(b));
    let gray = (0..24u8).min_by_key(|i| far([8 + 10 * i; 3])).unwrap_or(0);
    match far([8 + 10 * gray; 3]) < far([STEPS[i], STEPS[j], STEPS[k]]) {
        true => Color::Indexed(232 + gray),
        false => Color::Indexed((16 + 36 * i + 6 * j + k) as u8),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::testing;

    #[test]
    fn a_picture_keeps_its_aspect_ratio_and_is_centered() {
        let area = Rect::new(2, 1, 40, 10);
        for ((w, h), want) in [
            ((100, 100), Rect::new(12, 1, 20, 10)),
            ((1600, 100), Rect::new(2, 5, 40, 2)),
            ((9, 1600), Rect::new(21, 1, 1, 10)),
        ] {
            assert_eq!(fit(&testing::frame(0.0, w, h), area), want, "{w} x {h}");
        }
        assert_eq!(fit(&testing::frame(0.0, 8, 8), Rect::new(0, 0, 0, 3)).area(), 0);
    }

    #[test]
    fn each_cell_shows_two_pixels() {
        // Red over green on the left, blue over white on the right.
        let rgb = [[255, 0, 0], [0, 0, 255], [0, 255, 0], [255, 255, 255]].concat();
        let frame = Frame { index: 0, timestamp_s: 0.0, width: 2, height: 2, rgb };
        let mut buffer = Buffer::empty(Rect::new(0, 0, 2, 1));
        draw(&frame, ColorDepth::True, &mut buffer, Rect::new(0, 0, 2, 1));
        let colors = [0, 1].map(|x| (buffer[(x, 0)].fg, buffer[(x, 0)].bg));
        let rgb = Color::Rgb;
        assert_eq!(colors, [(rgb(255, 0, 0), rgb(0, 255, 0)), (rgb(0, 0, 255), rgb(255, 255, 255))]);
        assert_eq!(mean(&frame, 0.0..1.0, 0.0..1.0), [127, 127, 127]);
        // A truncated frame is drawn as far as it goes.
        let cut = Frame { rgb: vec![9; 6], ..frame };
        assert_eq!(mean(&cut, 0.0..1.0, 0.5..1.0), [0, 0, 0]);
    }

    #[test]
    fn the_nearest_of_256_colors_is_used() {
        let near = |rgb| color(rgb, ColorDepth::Indexed);
        assert_eq!(near([255, 0, 0]), Color::Indexed(196));
        assert_eq!(near([0, 0, 0]), Color::Indexed(16));
        assert_eq!(near([120, 119, 121]), Color::Indexed(243));
        assert_eq!(near([90, 140, 210]), Color::Indexed(68));
    }
}
