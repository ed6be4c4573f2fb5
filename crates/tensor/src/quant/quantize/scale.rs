//! Parts with a scale alone: `x ≈ scale q`.

use super::lanes::{LaneParts, Lanes};

/// What values over their scale are rounded to.
pub(super) trait Levels {
    /// What a search lets the value of the largest magnitude be over its scale. The first is the usual choice.
    const EXTREMES: &'static [f32];

    /// The nearest level.
    fn nearest<const L: usize>(x: Lanes<L>) -> Lanes<L>;
}

/// What rounding with a scale leaves.
pub(super) struct Fit<const L: usize> {
    scale: Lanes<L>,
    pub error: Lanes<L>,
    /// Sum of levels times the remainders of their values.
    rest: Lanes<L>,
    /// Sum of squared levels.
    pub squares: Lanes<L>,
}

impl<const L: usize> Fit<L> {
    #[inline(always)]
    pub fn of<T: Levels, const N: usize>(x: &LaneParts<L, N>, scale: Lanes<L>) -> Self {
        let inverse = scale.inverse();
        let [mut error, mut rest, mut squares] = [Lanes::ZERO; 3];
        for &x in x {
            let level = T::nearest(x * inverse);
            let left = x - level * scale;
            error += left * left;
            rest += left * level;
            squares += level * level;
        }
        Self { scale, error, rest, squares }
    }

    /// The best scale for the same levels.
    #[inline(always)]
    pub fn better(&self) -> Lanes<L> {
        self.scale + self.rest * self.squares.inverse()
    }

    /// The error with that scale.
    #[inline(always)]
    fn better_error(&self) -> Lanes<L> {
        self.error - self.rest * self.rest * self.squares.inverse()
    }

    /// Sum of levels times values.
    #[inline(always)]
    pub fn product(&self) -> Lanes<L> {
        self.rest + self.scale * self.squares
    }
}

/// The value of the largest magnitude of each part.
#[inline(always)]
fn extremes<const L: usize, const N: usize>(x: &LaneParts<L, N>) -> Lanes<L> {
    let [mut low, mut high] = [Lanes::ZERO; 2];
    for &x in x {
        (low, high) = (low.min(x), high.max(x));
    }
    high.if_less(-low, low, high)
}

/// The best scales.
#[inline(always)]
pub(super) fn search<T: Levels, const L: usize, const N: usize>(x: &LaneParts<L, N>) -> Lanes<L> {
    let extremes = extremes(x);
    let (mut error, mut scale) = (Lanes::INFINITY, Lanes::ZERO);
    for &to in T::EXTREMES {
        let fit = Fit::of::<T, N>(x, extremes * Lanes::of(1.0 / to));
        let found = fit.better_error();
        scale = found.if_less(error, fit.better(), scale);
        error = found.min(error);
    }
    scale
}

/// The best scales that are 16-bit floats.
#[inline(always)]
pub(super) fn search_halves<T: Levels, const L: usize, const N: usize>(x: &LaneParts<L, N>) -> Lanes<L> {
    // Rounding can make the result of the search worse than its start.
    let mut scale = (extremes(x) * Lanes::of(1.0 / T::EXTREMES[0])).halved();
    let mut error = Fit::of::<T, N>(x, scale).error;
    let mut next = search::<T, L, N>(x).halved();
    for _ in 0..3 {
        let fit = Fit::of::<T, N>(x, next);
        scale = fit.error.if_less(error, next, scale);
        error = fit.error.min(error);
        next = fit.better().halved();
    }
    scale
}
