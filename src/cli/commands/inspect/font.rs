//! Text in the picture: Noto Sans Mono, 16 pixels high.

use noto_sans_mono_bitmap::{FontWeight, RasterHeight, RasterizedChar, get_raster, get_raster_width};

use super::*;

const WEIGHT: FontWeight = FontWeight::Regular;
const SIZE: RasterHeight = RasterHeight::Size16;
/// Pixels from one character to the next.
const ADVANCE: u32 = get_raster_width(WEIGHT, SIZE) as u32;
/// Pixels from the top to the bottom of a line.
pub const HEIGHT: u32 = SIZE.val() as u32;

/// A character's pixels; a replacement character's if the font lacks it.
fn glyph(c: char) -> Option<RasterizedChar> {
    get_raster(c, WEIGHT, SIZE).or_else(|| get_raster(char::REPLACEMENT_CHARACTER, WEIGHT, SIZE))
}

pub fn width(text: &str) -> u32 {
    u32::try_from(text.chars().count()).unwrap_or(u32::MAX).saturating_mul(ADVANCE)
}

/// Write a line of text whose upper left corner is at `x`, `y`. Pixels outside the picture are left out.
pub fn write(canvas: &mut RgbImage, (x, y): (u32, u32), text: &str) {
    for (at, c) in (0u32..).zip(text.chars()) {
        let left = x.saturating_add(at.saturating_mul(ADVANCE));
        for (row, pixels) in (0u32..).zip(glyph(c).into_iter().flat_map(|glyph| glyph.rows())) {
            for (column, ink) in (0u32..).zip(pixels) {
                let place = (left.saturating_add(column), y.saturating_add(row));
                if let Some(pixel) = canvas.get_pixel_mut_checked(place.0, place.1) {
                    *pixel = Rgb(blend(pixel.0, *ink));
                }
            }
        }
    }
}

/// A ground under a share of ink from 0 to 255.
fn blend(ground: colors::Rgb, ink: u8) -> colors::Rgb {
    let share = f32::from(ink) / 255.0;
    std::array::from_fn(|i| {
        let (from, to) = (f32::from(ground[i]), f32::from(colors::INK[i]));
        (from + (to - from) * share).round() as u8
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_as_wide_as_it_says_and_stays_in_the_picture() {
        let mut canvas = RgbImage::new(width("12.5 s") + 10, HEIGHT);
        write(&mut canvas, (0, 0), "12.5 s");
        let inked = canvas.enumerate_pixels().filter(|(_, _, p)| p.0 != [0, 0, 0]).map(|(x, _, _)| x);
        let (first, last) = (inked.clone().min().unwrap(), inked.max().unwrap());
        assert!(first < ADVANCE && last < width("12.5 s") && last > width("12.5 "), "{first} {last}");
        write(&mut canvas, (u32::MAX - 3, 5), "outside");
        write(&mut canvas, (0, u32::MAX), "outside");
    }

    #[test]
    fn characters_that_the_font_lacks_are_replaced() {
        let drawn = |text: &str| {
            let mut canvas = RgbImage::new(width(text), HEIGHT);
            write(&mut canvas, (0, 0), text);
            canvas
        };
        assert_eq!(drawn("日"), drawn("\u{fffd}"));
        assert_ne!(drawn("é"), drawn("\u{fffd}"));
        assert_ne!(drawn("A"), drawn("a"));
    }
}
