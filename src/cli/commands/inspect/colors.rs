//! Colors of the picture. Heat is lightness first, so that it is readable without color.

pub type Rgb = [u8; 3];

pub const GROUND: Rgb = [24, 26, 30];
pub const INK: Rgb = [226, 229, 235];
/// The outline of a kept cell.
pub const BRIGHT: Rgb = [255, 255, 255];
/// The line inside it, which separates it from bright ground.
pub const DARK: Rgb = [0, 0, 0];

/// Viridis at even distances: lightness rises monotonically, and it is readable with red-green color blindness.
const VIRIDIS: [Rgb; 9] = [
    [68, 1, 84],
    [71, 44, 122],
    [59, 81, 139],
    [44, 113, 142],
    [33, 144, 141],
    [39, 173, 129],
    [92, 200, 99],
    [170, 220, 50],
    [253, 231, 37],
];

pub fn heat(heat: f32) -> Rgb {
    let place = heat.clamp(0.0, 1.0) * (VIRIDIS.len() - 1) as f32;
    let below = (place as usize).min(VIRIDIS.len() - 2);
    let share = place - below as f32;
    let [low, high] = [VIRIDIS[below], VIRIDIS[below + 1]];
    std::array::from_fn(|i| {
        (f32::from(low[i]) + (f32::from(high[i]) - f32::from(low[i])) * share).round() as u8
    })
}

/// Luma of a color, 0 to 255 (Rec. 709).
pub fn luma([r, g, b]: Rgb) -> f32 {
    0.2126 * f32::from(r) + 0.7152 * f32::from(g) + 0.0722 * f32::from(b)
}

/// A color of a dropped cell: a third as bright, and half as colorful.
pub fn dim(color: Rgb) -> Rgb {
    let grey = luma(color);
    color.map(|part| ((f32::from(part) + grey) / 2.0 * 0.33).round() as u8)
}

/// A color made brighter (or, if negative, darker) by this much.
pub fn shift(color: Rgb, by: f32) -> Rgb {
    color.map(|part| (f32::from(part) + by).round().clamp(0.0, 255.0) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heat_is_lightness() {
        let lumas: Vec<f32> = (0..=100).map(|i| luma(heat(i as f32 / 100.0))).collect();
        assert!(lumas.windows(2).all(|pair| pair[0] < pair[1]), "{lumas:?}");
        assert!(lumas[100] - lumas[0] > 180.0);
        assert_eq!(
            (heat(-1.0), heat(0.0), heat(1.0), heat(2.0)),
            (VIRIDIS[0], VIRIDIS[0], VIRIDIS[8], VIRIDIS[8])
        );
        assert_eq!(heat(0.5), VIRIDIS[4]);
    }

    #[test]
    fn dim_is_darker_and_shifts_stay_in_range() {
        for color in [[255, 255, 255], [255, 0, 0], [10, 200, 90]] {
            assert!(luma(dim(color)) < luma(color) * 0.4, "{color:?}");
        }
        assert_eq!(dim([0, 0, 0]), [0, 0, 0]);
        assert_eq!((shift([250, 5, 100], 10.0), shift([250, 5, 100], -10.0)), ([255, 15, 110], [240, 0, 90]));
    }
}
