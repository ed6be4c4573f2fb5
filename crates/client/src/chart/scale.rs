//! Axes: round ticks that cover the values.

/// Approximate number of steps on an axis.
const STEPS: f64 = 5.0;

/// From this ratio of the largest value to the smallest on, a range is shown by doublings.
const WIDE: f64 = 16.0;

/// One axis, from one round number to another in round steps, or from one power of two to another in doublings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    low: f64,
    high: f64,
    step: f64,
    doubles: bool,
}

impl Scale {
    /// The scale that covers all finite values; 0 to 1 if there are none.
    pub fn covering(values: impl IntoIterator<Item = f64>) -> Scale {
        Self::covering_up_to(f64::INFINITY, values)
    }

    /// The same for a parameter: a wide range of positive values is shown by doublings.
    pub fn spanning(values: impl IntoIterator<Item = f64>) -> Scale {
        let values: Vec<f64> = values.into_iter().filter(|v| v.is_finite()).collect();
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(0.0, f64::max);
        if least <= 0.0 || most < WIDE * least {
            return Self::covering(values);
        }
        let (low, high) = ((least.log2() + 1e-9).floor(), (most.log2() - 1e-9).ceil());
        let step = ((high - low) / (2.0 * STEPS)).ceil();
        Scale { low, high: low + ((high - low) / step).ceil() * step, step, doubles: true }
    }

    /// The same for values that cannot exceed `most`, a round number.
    pub fn covering_up_to(most: f64, values: impl IntoIterator<Item = f64>) -> Scale {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.into_iter().filter(|v| v.is_finite()) {
            low = low.min(value);
            high = high.max(value);
        }
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        // Nearly equal values also need an axis.
        let largest = low.abs().max(high.abs());
        let least = if largest > 0.0 { largest * 0.02 } else { 1.0 };
        if high - low < least {
            let above = least.min((most - high).max(0.0));
            (low, high) = (low - (2.0 * least - above), high + above);
        }
        let rough = (high - low) / STEPS;
        let power = 10f64.powf(rough.log10().floor());
        let step = power * [1.0, 2.0, 5.0].into_iter().find(|m| m * power >= rough * 0.999).unwrap_or(10.0);
        // A value that misses a tick by no more than rounding error counts as on it.
        let low = (low / step + 1e-9).floor() * step;
        let high = (high / step - 1e-9).ceil() * step;
        Scale { low, high, step, doubles: false }
    }

    /// The ticks, ascending; the first and the last are the ends.
    pub fn ticks(&self) -> Vec<f64> {
        let count = ((self.high - self.low) / self.step).round() as usize;
        let ticks = (0..=count).map(|i| self.low + i as f64 * self.step);
        ticks.map(|tick| if self.doubles { tick.exp2() } else { tick }).collect()
    }

    /// A value on the axis, where equal distances have equal lengths.
    pub fn along(&self, value: f64) -> f64 {
        if self.doubles { value.log2() } else { value }
    }

    /// Position of a value, from 0 at the low end to 1 at the high end.
    pub fn place(&self, value: f64) -> f64 {
        ((self.along(value) - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }

    /// A tick with as few digits as keep the ticks distinct.
    pub fn words(&self, tick: f64) -> String {
        if self.doubles {
            return format!("{tick}");
        }
        let decimals = (-self.step.log10() - 1e-9).ceil().clamp(0.0, 9.0) as usize;
        // No negative zero.
        format!("{:.decimals$}", if tick.abs() < self.step * 1e-6 { 0.0 } else { tick })
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn no_axis_exceeds_the_possible_maximum() {
        let top = |most, values: &[f64]| {
            let scale = super::Scale::covering_up_to(most, values.iter().copied());
            let ticks = scale.ticks();
            assert!(values.iter().all(|v| (ticks[0]..=*ticks.last().unwrap()).contains(v)), "{ticks:?}");
            *ticks.last().unwrap()
        };
        assert_eq!(top(100.0, &[100.0, 100.0]), 100.0);
        assert_eq!(top(100.0, &[99.2]), 100.0);
        assert_eq!(top(100.0, &[61.0, 99.5]), 100.0);
        assert!(top(f64::INFINITY, &[100.0]) > 100.0);
    }

    use super::*;

    fn words(values: &[f64]) -> Vec<String> {
        let scale = Scale::covering(values.iter().copied());
        scale.ticks().iter().map(|t| scale.words(*t)).collect()
    }

    #[test]
    fn ticks_are_round_and_cover_all() {
        assert_eq!(words(&[0.74, 1.29]), ["0.6", "0.8", "1.0", "1.2", "1.4"]);
        assert_eq!(words(&[80.0, 100.0]), ["80", "85", "90", "95", "100"]);
        assert_eq!(words(&[-0.1, 0.3]), ["-0.1", "0.0", "0.1", "0.2", "0.3"]);
        assert_eq!(words(&[1.0, 40.0]), ["0", "10", "20", "30", "40"]);
    }

    #[test]
    fn a_wide_range_is_shown_by_doublings() {
        let words = |values: &[f64]| {
            let scale = Scale::spanning(values.iter().copied());
            scale.ticks().iter().map(|t| scale.words(*t)).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(words(&[1.0, 2.0, 64.0]), "1 2 4 8 16 32 64");
        assert_eq!(words(&[0.1, 2.5]), "0.0625 0.125 0.25 0.5 1 2 4");
        assert_eq!(words(&[1.0, 15.0]), "0 5 10 15", "a narrow one is not");
        assert_eq!(words(&[0.0, 64.0]), "0 20 40 60 80", "nor one from zero");
        assert_eq!(words(&[1.0, 4_000_000.0]).split(' ').count(), 9);
        let scale = Scale::spanning([1.0, 64.0]);
        assert_eq!([1.0, 8.0, 64.0].map(|value| scale.place(value)), [0.0, 0.5, 1.0]);
    }

    #[test]
    fn one_value_and_none_have_an_axis() {
        for values in [&[100.0][..], &[0.0], &[], &[f64::NAN], &[5.0, 5.0 + 1e-12]] {
            let scale = Scale::covering(values.iter().copied());
            let ticks = scale.ticks();
            assert!((2..=12).contains(&ticks.len()), "{values:?}: {ticks:?}");
            for value in values.iter().filter(|v| !v.is_nan()) {
                let place = scale.place(*value);
                assert!(place > 0.0 && place < 1.0, "{values:?}: {place}");
            }
        }
    }

    #[test]
    fn places_go_from_end_to_end() {
        let scale = Scale::covering([1.0, 3.0]);
        assert_eq!((scale.place(1.0), scale.place(2.0), scale.place(3.0)), (0.0, 0.5, 1.0));
        assert_eq!((scale.place(-9.0), scale.place(9.0)), (0.0, 1.0));
    }
}
