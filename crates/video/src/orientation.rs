//! The eight orientations of a picture, and rotating it upright.
//!
//! Phones store frames in sensor orientation and add a display matrix: three rows (a b u), (c d v), (x y w) in fixed point, where a
//! pixel (x, y) is shown at (a·x + c·y, b·x + d·y). Only quarter turns and mirror images are undone; any other
//! matrix is rounded to the nearest one.

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
    fn degenerate_matrices_are_upright() {
        assert_eq!(matrix(0, 0, 0, 0), Orientation::default());
        assert_eq!(Orientation::from_side_data(&[1, 2, 3]), Orientation::default());
    }
}
