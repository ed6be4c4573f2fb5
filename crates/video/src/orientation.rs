//! From stored pixels to the shown picture: square pixels, in one of eight orientations.
//!
//! Phones store frames in sensor orientation and add a display matrix, or an EXIF orientation to a photo. A display matrix is three rows (a b u), (c d v), (x y w) in fixed point, where a
//! pixel (x, y) is shown at (a·x + c·y, b·x + d·y). Only quarter turns and mirror images are undone; any other
//! matrix is rounded to the nearest one. Video of DVDs and broadcasts has pixels that are wider or narrower than high; players stretch
//! it, and so do we: wide pixels make the picture wider, narrow ones make it higher, so nothing is lost.

use std::num::NonZero;

use ffmpeg_next::Rational;

/// Pixels whose sides differ by less than this factor count as square.
const SQUARE: f64 = 1.01;

/// Pixels whose sides differ by more than this factor are damaged headers.
const MAX_ASPECT: f64 = 10.0;

/// How a stored picture is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Geometry {
    pub orientation: Orientation,
    /// Width of a stored pixel divided by its height; `None` if it is square.
    aspect: Option<f64>,
}

impl Geometry {
    /// With this sample aspect ratio, before rotation; invalid ratios count as square.
    pub(crate) fn new(orientation: Orientation, aspect: Rational) -> Self {
        let [n, d] = [aspect.numerator(), aspect.denominator()].map(NonZero::new);
        let aspect = n.zip(d).map(|(n, d)| f64::from(n.get()) / f64::from(d.get()));
        let is_usable = |aspect: &f64| {
            let longer = aspect.max(1.0 / aspect);
            (SQUARE..=MAX_ASPECT).contains(&longer)
        };
        Self { orientation, aspect: aspect.filter(is_usable) }
    }

    /// Width and height with square pixels, before rotation, of a picture stored in this width and height.
    pub(crate) fn squared(self, width: u32, height: u32) -> (u32, u32) {
        let stretched = |side: u32, factor: f64| (f64::from(side) * factor).round() as u32;
        match self.aspect {
            Some(wide) if wide > 1.0 => (stretched(width, wide), height),
            Some(narrow) => (width, stretched(height, 1.0 / narrow)),
            None => (width, height),
        }
    }

    /// Shown width and height of a picture stored in this width and height.
    pub(crate) fn shown(self, width: u32, height: u32) -> (u32, u32) {
        let (width, height) = self.squared(width, height);
        self.orientation.size(width, height)
    }
}

/// Transformation from stored pixels to display.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Orientation {
    /// Columns become rows: shown width is stored height. Applied before the flips.
    transposed: bool,
    /// The shown picture is then mirrored left to right.
    flip_x: bool,
    /// The shown picture is then mirrored top to bottom.
    flip_y: bool,
}

impl Orientation {
    /// From the nine 32-bit numbers of a display matrix; a degenerate matrix is upright.
    pub(crate) fn from_matrix(m: &[i32; 9]) -> Self {
        let (a, b, c, d) = (i64::from(m[0]), i64::from(m[1]), i64::from(m[3]), i64::from(m[4]));
        if a * d == b * c {
            return Self::default();
        }
        if b.abs() > a.abs() {
            Self { transposed: true, flip_x: c < 0, flip_y: b < 0 }
        } else {
            Self { transposed: false, flip_x: a < 0, flip_y: d < 0 }
        }
    }

    /// From the number of an EXIF orientation, 1 to 8.
    pub(super) fn from_exif(number: u8) -> Self {
        Self {
            transposed: matches!(number, 5..=8),
            flip_x: matches!(number, 2 | 3 | 6 | 7),
            flip_y: matches!(number, 3 | 4 | 7 | 8),
        }
    }

    /// From the bytes of FFmpeg's display matrix side data (native byte order); too few bytes are upright.
    pub(super) fn from_side_data(bytes: &[u8]) -> Self {
        let mut matrix = [0i32; 9];
        let numbers = bytes.chunks_exact(4).filter_map(|b| b.try_into().ok()).map(i32::from_ne_bytes);
        let mut count = 0;
        for (slot, number) in matrix.iter_mut().zip(numbers) {
            *slot = number;
            count += 1;
        }
        if count == 9 { Self::from_matrix(&matrix) } else { Self::default() }
    }

    /// Clockwise rotation for display, in degrees: 0, 90, 180 or 270 (of the picture's horizontal axis, where it is mirrored too).
    pub fn degrees(self) -> u32 {
        match (self.transposed, self.flip_x, self.flip_y) {
            (false, false, _) => 0,
            (false, true, _) => 180,
            (true, _, false) => 90,
            (true, _, true) => 270,
        }
    }

    /// Shown width and height of a picture stored in this width and height.
    pub fn size(self, width: u32, height: u32) -> (u32, u32) {
        if self.transposed { (height, width) } else { (width, height) }
    }

    /// Rotate packed RGB rows (`width × height × 3` bytes, as stored) upright.
    pub(super) fn apply(self, rgb: Vec<u8>, width: u32, height: u32) -> Vec<u8> {
        if self == Self::default() {
            return rgb;
        }
        let (w, h) = (width as usize, height as usize);
        let (shown_w, shown_h) = if self.transposed { (h, w) } else { (w, h) };
        let mut out = Vec::with_capacity(rgb.len());
        for y in 0..shown_h {
            let y = if self.flip_y { shown_h - 1 - y } else { y };
            for x in 0..shown_w {
                let x = if self.flip_x { shown_w - 1 - x } else { x };
                let at = 3 * if self.transposed { x * w + y } else { y * w + x };
                out.extend_from_slice(&rgb[at..at + 3]);
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: i32 = 1 << 16;

    fn matrix(a: i32, b: i32, c: i32, d: i32) -> Orientation {
        Orientation::from_matrix(&[a * ONE, b * ONE, 0, c * ONE, d * ONE, 0, 0, 0, 1 << 30])
    }

    /// Two rows of three pixels, shown: each pixel is one letter.
    fn shown(orientation: Orientation) -> String {
        let rgb: Vec<u8> = b"abcdef".iter().flat_map(|&p| [p; 3]).collect();
        let (w, _) = orientation.size(3, 2);
        let out: Vec<u8> = orientation.apply(rgb, 3, 2).chunks(3).map(|p| p[0]).collect();
        out.chunks(w as usize)
            .map(|row| String::from_utf8_lossy(row).into_owned())
            .collect::<Vec<_>>()
            .join("/")
    }

    #[test]
    fn every_quarter_turn_and_mirror_image() {
        let table = [
            ((1, 0, 0, 1), 0, "abc/def"),
            ((0, 1, -1, 0), 90, "da/eb/fc"),
            ((-1, 0, 0, -1), 180, "fed/cba"),
            ((0, -1, 1, 0), 270, "cf/be/ad"),
            ((-1, 0, 0, 1), 180, "cba/fed"),
            ((1, 0, 0, -1), 0, "def/abc"),
            ((0, 1, 1, 0), 90, "ad/be/cf"),
            ((0, -1, -1, 0), 270, "fc/eb/da"),
        ];
        for ((a, b, c, d), degrees, want) in table {
            let orientation = matrix(a, b, c, d);
            assert_eq!(orientation.degrees(), degrees, "{a} {b} {c} {d}");
            assert_eq!(shown(orientation), want, "{a} {b} {c} {d}");
        }
    }

    #[test]
    fn every_exif_orientation() {
        // As Pillow's `exif_transpose` shows them.
        let want =
            ["abc/def", "cba/fed", "fed/cba", "def/abc", "ad/be/cf", "da/eb/fc", "fc/eb/da", "cf/be/ad"];
        for (number, want) in (1..).zip(want) {
            assert_eq!(shown(Orientation::from_exif(number)), want, "{number}");
        }
        assert_eq!([0, 9, 255].map(Orientation::from_exif), [Orientation::default(); 3]);
    }

    #[test]
    fn pixels_become_square_and_nothing_is_lost() {
        let size = |n, d, exif| Geometry::new(Orientation::from_exif(exif), Rational(n, d)).shown(720, 576);
        assert_eq!((size(64, 45, 1), size(16, 15, 1), size(8, 9, 1)), ((1024, 576), (768, 576), (720, 648)));
        assert_eq!(size(64, 45, 6), (576, 1024), "rotated afterwards");
        for (n, d) in [(1, 1), (0, 1), (0, 0), (1, 0), (-4, 3), (i32::MIN, -1), (1, 100), (1216, 1215)] {
            assert_eq!(size(n, d, 1), (720, 576), "{n}:{d}");
        }
    }

    #[test]
    fn degenerate_matrices_are_upright() {
        assert_eq!(matrix(0, 0, 0, 0), Orientation::default());
        assert_eq!(Orientation::from_side_data(&[1, 2, 3]), Orientation::default());
    }
}
