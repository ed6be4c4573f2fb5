//! Products of f32 in vectors of eight lanes.

use super::{
    DisjointSliceMut, Product,
    vectors::{self as v, Floats, LANES},
};

/// SAFETY: `x0` holds at least `(R - 1) * stride + w.len()` values.
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma"))]
pub unsafe fn dot_f32<const R: usize>(w: &[f32], x0: &[f32], stride: usize) -> [f32; R] {
    let n = w.len();
    let whole = n / LANES * LANES;
    let mut acc = [v::zeros(); R];
    let mut i = 0;
    while i < whole {
        // SAFETY: i + 8 <= n, the length of `w`.
        let wv = unsafe { v::load(w.as_ptr().add(i)) };
        for (r, acc) in acc.iter_mut().enumerate() {
            // SAFETY: row r holds n values, as the caller guarantees.
            let xv = unsafe { v::load(x0.as_ptr().add(r * stride + i)) };
            *acc = v::fma(wv, xv, *acc);
        }
        i += LANES;
    }
    let mut out = [0f32; R];
    for r in 0..R {
        let mut s = v::sum(acc[r]);
        for k in whole..n {
            s += w[k] * x0[r * stride + k];
        }
        out[r] = s;
    }
    out
}

/// Walk the tiles of a product: `O` columns by `R` rows. Every dot product is summed in the same order in any tile.
macro_rules! tiles {
    ($product:expr, $y:expr, $tile:ident, $($operand:expr),+) => {{
        let p = $product;
        let mut r = 0;
        while r < p.rows {
            let mut o = p.columns.start;
            if p.rows - r >= 4 {
                while o < p.columns.end {
                    // SAFETY: rows r to r + 4 and column o are within the product.
                    let v = unsafe { $tile::<1, 4>($($operand),+, o, r) };
                    for (i, sum) in v::sums(v[0]).into_iter().enumerate() {
                        // SAFETY: the column is this call's.
                        unsafe { $y.set(p.at(r + i, o), sum) };
                    }
                    o += 1;
                }
                r += 4;
            } else {
                while o < p.columns.end {
                    let zero = v::zeros();
                    let n = (p.columns.end - o).min(4);
                    // SAFETY: row r and columns o to o + n are within the product.
                    let v = unsafe {
                        if n == 4 {
                            let v = $tile::<4, 1>($($operand),+, o, r);
                            [v[0][0], v[1][0], v[2][0], v[3][0]]
                        } else {
                            [$tile::<1, 1>($($operand),+, o, r)[0][0], zero, zero, zero]
                        }
                    };
                    let n = if n == 4 { 4 } else { 1 };
                    for (i, sum) in v::sums(v).into_iter().take(n).enumerate() {
                        // SAFETY: the columns are this call's.
                        unsafe { $y.set(p.at(r, o + i), sum) };
                    }
                    o += n;
                }
                r += 1;
            }
        }
    }};
}

/// SAFETY: the operands passed [`Product::check`]; the columns are the caller's.
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma"))]
pub(crate) unsafe fn product_f32(product: &Product, w: &[f32], x: &[f32], y: &DisjointSliceMut<'_>) {
    tiles!(product, y, tile_f32, w, x, product.inputs);
}

/// Unsummed dot products of `O` rows of `w` from `o` on with `R` rows of `x` from `r` on; the remainder of a width that 8 does not
/// divide is added to the first lane.
///
/// SAFETY: those rows exist in both operands.
#[inline]
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma"))]
unsafe fn tile_f32<const O: usize, const R: usize>(
    w: &[f32],
    x: &[f32],
    n: usize,
    o: usize,
    r: usize,
) -> [[Floats; R]; O] {
    let mut acc = [[v::zeros(); R]; O];
    let whole = n / LANES * LANES;
    // SAFETY: every access is within rows that the caller guarantees.
    unsafe {
        let (w, x) = (w.as_ptr().add(o * n), x.as_ptr().add(r * n));
        for at in (0..whole).step_by(LANES) {
            for (i, acc) in acc.iter_mut().enumerate() {
                let wv = v::load(w.add(i * n + at));
                for (j, acc) in acc.iter_mut().enumerate() {
                    *acc = v::fma(wv, v::load(x.add(j * n + at)), *acc);
                }
            }
        }
        if whole < n {
            for (i, acc) in acc.iter_mut().enumerate() {
                for (j, acc) in acc.iter_mut().enumerate() {
                    let rest: f32 = (whole..n).map(|k| *w.add(i * n + k) * *x.add(j * n + k)).sum();
                    *acc = v::add_to_first(*acc, rest);
                }
            }
        }
    }
    acc
}
