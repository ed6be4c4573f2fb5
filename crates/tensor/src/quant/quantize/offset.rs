//! Parts with a scale and an offset: `x ≈ scale q + offset` for integers `q` from 0 to `HIGH`.

use super::lanes::{LaneParts, Lanes};

/// A scale and an offset of each part.
#[derive(Clone, Copy)]
pub(super) struct ScaleAndOffset<const L: usize> {
    pub scale: Lanes<L>,
    pub offset: Lanes<L>,
}

impl<const L: usize> ScaleAndOffset<L> {
    #[inline(always)]
    pub fn if_less(a: Lanes<L>, b: Lanes<L>, then: Self, otherwise: Self) -> Self {
        Self {
            scale: a.if_less(b, then.scale, otherwise.scale),
            offset: a.if_less(b, then.offset, otherwise.offset),
        }
    }

    #[inline(always)]
    fn halved(self) -> Self {
        Self { scale: self.scale.halved(), offset: self.offset.halved() }
    }

    /// The nearest integers.
    #[inline(always)]
    pub fn integers<const HIGH: usize, const N: usize>(self, x: &LaneParts<L, N>) -> LaneParts<L, N> {
        let inverse = self.scale.inverse();
        x.map(|x| ((x - self.offset) * inverse).nearest(0.0, HIGH as f32))
    }
}

/// What rounding with a scale and an offset leaves.
pub(super) struct Fit<const L: usize> {
    line: ScaleAndOffset<L>,
    count: Lanes<L>,
    pub error: Lanes<L>,
    /// Sum of the remainders of the values.
    left: Lanes<L>,
    /// Sum of integers times the remainders of their values.
    rest: Lanes<L>,
    /// Sum of integers.
    pub integers: Lanes<L>,
    /// Sum of squared integers.
    pub squares: Lanes<L>,
}

impl<const L: usize> Fit<L> {
    #[inline(always)]
    pub fn of<const HIGH: usize, const N: usize>(x: &LaneParts<L, N>, line: ScaleAndOffset<L>) -> Self {
        let inverse = line.scale.inverse();
        let [mut error, mut left, mut rest, mut integers, mut squares] = [Lanes::ZERO; 5];
        for &x in x {
            let above = x - line.offset;
            let q = (above * inverse).nearest(0.0, HIGH as f32);
            let r = above - q * line.scale;
            error += r * r;
            left += r;
            rest += r * q;
            integers += q;
            squares += q * q;
        }
        Self { line, count: Lanes::of(N as f32), error, left, rest, integers, squares }
    }

    /// The best line for the same integers whose offset is at most `highest`, and its error.
    #[inline(always)]
    pub fn better(&self, highest: f32) -> (ScaleAndOffset<L>, Lanes<L>) {
        let Self { line, count, error, left, rest, integers, squares } = *self;
        let slope = (count * rest - left * integers) * (count * squares - integers * integers).inverse();
        let shift = (left - slope * integers) / count;
        // At the bound, the scale alone is free.
        let most = Lanes::of(highest) - line.offset;
        let slope = most.if_less(shift, (rest - most * integers) * squares.inverse(), slope);
        let shift = shift.min(most);
        let twice = slope * (slope * squares - rest - rest) + shift * (count * shift - left - left);
        let error = error + twice + (slope + slope) * shift * integers;
        (ScaleAndOffset { scale: line.scale + slope, offset: line.offset + shift }, error)
    }

    /// The best offset for the same integers and scale.
    #[inline(always)]
    pub fn better_offset(&self) -> Lanes<L> {
        self.line.offset + self.left / self.count
    }

    /// Sum of integers times values.
    #[inline(always)]
    pub fn product(&self) -> Lanes<L> {
        self.rest + self.line.scale * self.squares + self.line.offset * self.integers
    }
}

/// Where a search lets the least value and the largest one be: so many steps below 0 and above `HIGH`. Negative numbers leave
/// integers unused, which suits values that lie on a grid.
const ENDS: [(f32, f32); 13] = [
    (0.0, 0.0),
    (0.0, 0.3),
    (0.0, 0.6),
    (0.0, -0.3),
    (0.0, -0.6),
    (0.3, 0.0),
    (0.3, 0.3),
    (0.6, 0.6),
    (0.0, -1.0),
    (0.0, -2.0),
    (0.0, -3.0),
    (0.0, -4.0),
    (0.0, -5.0),
];

/// The least values, but at most `highest`, and how far the largest are above.
#[inline(always)]
fn bounds<const L: usize, const N: usize>(x: &LaneParts<L, N>, highest: f32) -> (Lanes<L>, Lanes<L>) {
    let (mut low, mut high) = (x[0].min(Lanes::of(highest)), x[0]);
    for &x in x {
        (low, high) = (low.min(x), high.max(x));
    }
    (low, (high - low).max(Lanes::ZERO))
}

/// The best lines whose offsets are at most `highest`.
#[inline(always)]
pub(super) fn search<const HIGH: usize, const L: usize, const N: usize>(
    x: &LaneParts<L, N>,
    highest: f32,
) -> ScaleAndOffset<L> {
    let (low, range) = bounds(x, highest);
    let (mut error, mut line) = (Lanes::INFINITY, ScaleAndOffset { scale: Lanes::ZERO, offset: low });
    for (below, above) in ENDS {
        let scale = range * Lanes::of(1.0 / (HIGH as f32 + below + above));
        let from = ScaleAndOffset { scale, offset: low + scale * Lanes::of(below) };
        let (better, found) = Fit::of::<HIGH, N>(x, from).better(highest);
        line = ScaleAndOffset::if_less(found, error, better, line);
        error = found.min(error);
    }
    line
}

/// The best lines of which both numbers are 16-bit floats.
#[inline(always)]
pub(super) fn search_halves<const HIGH: usize, const L: usize, const N: usize>(
    x: &LaneParts<L, N>,
) -> ScaleAndOffset<L> {
    // Rounding can make the result of the search worse than its start.
    let (low, range) = bounds(x, f32::INFINITY);
    let mut line = ScaleAndOffset { scale: range * Lanes::of(1.0 / HIGH as f32), offset: low }.halved();
    let mut error = Fit::of::<HIGH, N>(x, line).error;
    let mut next = search::<HIGH, L, N>(x, f32::INFINITY).halved();
    for _ in 0..3 {
        let fit = Fit::of::<HIGH, N>(x, next);
        line = ScaleAndOffset::if_less(fit.error, error, next, line);
        error = fit.error.min(error);
        next = fit.better(f32::INFINITY).0.halved();
    }
    line
}
