//! Matrices of 16-bit floats, widened as they are read: half the memory of f32 and the same arithmetic.
//!
//! Every f16 and bf16 value is an f32 value, so the product equals the widened matrix's. Each dot product has one accumulator
//! of eight lanes that takes the inputs in order, for any number of rows in the call.

use super::{DisjointSliceMut, Product, portable};

/// A 16-bit float type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HalfKind {
    /// IEEE half precision.
    F16,
    /// The upper half of an f32.
    Bf16,
}

impl HalfKind {
    /// The name, as in `--dtype`.
    pub const fn name(self) -> &'static str {
        match self {
            HalfKind::F16 => "f16",
            HalfKind::Bf16 => "bf16",
        }
    }

    /// The value of a bit pattern.
    #[inline]
    pub fn widen(self, bits: u16) -> f32 {
        match self {
            HalfKind::F16 => half::f16::from_bits(bits).to_f32(),
            HalfKind::Bf16 => half::bf16::from_bits(bits).to_f32(),
        }
    }

    /// The bit pattern of the nearest value; infinity if the value is too large.
    #[inline]
    pub fn narrow(self, value: f32) -> u16 {
        match self {
            HalfKind::F16 => half::f16::from_f32(value).to_bits(),
            HalfKind::Bf16 => half::bf16::from_f32(value).to_bits(),
        }
    }

    /// True if no bit pattern is an infinity or not a number.
    pub fn are_finite(self, bits: &[u16]) -> bool {
        // All bits of the exponent are set.
        let mask = match self {
            HalfKind::F16 => 0x7c00,
            HalfKind::Bf16 => 0x7f80,
        };
        !bits.iter().fold(false, |any, bits| any | (bits & mask == mask))
    }

    /// Widen values. Panics if the lengths differ.
    pub fn widen_all(self, bits: &[u16], values: &mut [f32]) {
        use half::slice::{HalfBitsSliceExt, HalfFloatSliceExt};
        assert!(bits.len() == values.len(), "as many values as bit patterns");
        match self {
            HalfKind::F16 => bits.reinterpret_cast::<half::f16>().convert_to_f32_slice(values),
            // A shift, which is vectorised; `half` looks for NaN first.
            HalfKind::Bf16 => {
                values.iter_mut().zip(bits).for_each(|(v, b)| *v = f32::from_bits(u32::from(*b) << 16));
            }
        }
    }

    /// Narrow values, each to the nearest. Panics if the lengths differ.
    pub(crate) fn narrow_all(self, values: &[f32], bits: &mut [u16]) {
        use half::slice::{HalfBitsSliceExt, HalfFloatSliceExt};
        assert!(bits.len() == values.len(), "as many bit patterns as values");
        match self {
            HalfKind::F16 => bits.reinterpret_cast_mut::<half::f16>().convert_from_f32_slice(values),
            HalfKind::Bf16 => bits.reinterpret_cast_mut::<half::bf16>().convert_from_f32_slice(values),
        }
    }
}

/// True if the vector implementation is used for this type.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(super) fn has_vectors(kind: HalfKind) -> bool {
    #[cfg(target_arch = "x86_64")]
    let converts = kind == HalfKind::Bf16 || std::arch::is_x86_feature_detected!("f16c");
    #[cfg(target_arch = "aarch64")]
    let converts = matches!(kind, HalfKind::F16 | HalfKind::Bf16);
    converts && super::has_vectors()
}

/// Some columns of `y = x Wᵀ`, `w` in 16 bits and `x` in f32.
///
/// # Safety
/// No other call may write the same columns of `y` at the same time.
pub unsafe fn product_half(
    product: &Product,
    kind: HalfKind,
    w: &[u16],
    x: &[f32],
    y: &DisjointSliceMut<'_>,
) {
    product.check(w.len(), x.len());
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    if has_vectors(kind) {
        // SAFETY: the features were detected, the operands were checked, the columns are the caller's.
        unsafe {
            match kind {
                HalfKind::F16 => vectorized::product_f16(product, w, x, y),
                HalfKind::Bf16 => vectorized::product_bf16(product, w, x, y),
            }
        }
        return;
    }
    let n = product.inputs;
    // SAFETY: the columns are the caller's.
    unsafe { product.each(y, |o, r| dot(kind, &w[o * n..][..n], &x[r * n..][..n])) };
}

/// A value of [`product_half`], by the sums of the vector implementation.
fn dot(kind: HalfKind, w: &[u16], x: &[f32]) -> f32 {
    let widen = |bits| kind.widen(bits);
    portable::sum(portable::lanes(w, x, widen)) + portable::rest(w, x, widen).sum::<f32>()
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod vectorized {
    use super::{
        super::vectors::{self as v, Floats, LANES},
        DisjointSliceMut, HalfKind, Product,
    };

    /// Defines a product for one type: `$product` walks the tiles, `$tile` sums `O` columns by `R` rows.
    macro_rules! product {
        ($product:ident, $tile:ident, $features:literal, $kind:expr, $widen:ident) => {
            /// SAFETY: the operands passed [`Product::check`]; the columns are the caller's.
            #[cfg_attr(target_arch = "x86_64", target_feature(enable = $features))]
            pub unsafe fn $product(product: &Product, w: &[u16], x: &[f32], y: &DisjointSliceMut<'_>) {
                let mut r = 0;
                while r < product.rows {
                    let taken = (product.rows - r).min(4);
                    let mut o = product.columns.start;
                    while o < product.columns.end {
                        let several = taken == 1 && o + 4 <= product.columns.end;
                        // SAFETY: rows r to r + taken and these columns lie within the product.
                        unsafe {
                            match (taken, several) {
                                (1, true) => $tile::<4, 1>(product, w, x, o, r, y),
                                (1, false) => $tile::<1, 1>(product, w, x, o, r, y),
                                (2, _) => $tile::<1, 2>(product, w, x, o, r, y),
                                (3, _) => $tile::<1, 3>(product, w, x, o, r, y),
                                _ => $tile::<1, 4>(product, w, x, o, r, y),
                            }
                        }
                        o += if several { 4 } else { 1 };
                    }
                    r += taken;
                }
            }

            /// SAFETY: rows `r..r + R` and columns `o..o + O` lie within the product; the columns are the caller's.
            #[inline]
            #[cfg_attr(target_arch = "x86_64", target_feature(enable = $features))]
            unsafe fn $tile<const O: usize, const R: usize>(
                product: &Product,
                w: &[u16],
                x: &[f32],
                o: usize,
                r: usize,
                y: &DisjointSliceMut<'_>,
            ) {
                let n = product.inputs;
                let whole = n / LANES * LANES;
                let mut acc = [[v::zeros(); R]; O];
                // SAFETY: every access is within rows that the caller guarantees.
                unsafe {
                    let (wp, xp) = (w.as_ptr().add(o * n), x.as_ptr().add(r * n));
                    for at in (0..whole).step_by(LANES) {
                        let xv: [Floats; R] = std::array::from_fn(|j| v::load(xp.add(j * n + at)));
                        for (i, acc) in acc.iter_mut().enumerate() {
                            let wv = v::$widen(wp.add(i * n + at));
                            for (acc, xv) in acc.iter_mut().zip(xv) {
                                *acc = v::fma(wv, xv, *acc);
                            }
                        }
                    }
                    for (i, acc) in acc.into_iter().enumerate() {
                        for (j, acc) in acc.into_iter().enumerate() {
                            let rest =
                                (whole..n).map(|k| $kind.widen(*wp.add(i * n + k)) * *xp.add(j * n + k));
                            y.set(product.at(r + j, o + i), v::sum(acc) + rest.sum::<f32>());
                        }
                    }
                }
            }
        };
    }

    product!(product_f16, tile_f16, "avx2,fma,f16c", HalfKind::F16, load_f16);
    product!(product_bf16, tile_bf16, "avx2,fma", HalfKind::Bf16, load_bf16);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::kernels::tests::wave;

    #[test]
    fn products_are_those_of_the_widened_matrix_and_rows_are_independent() {
        for kind in [HalfKind::F16, HalfKind::Bf16] {
            for (inputs, outputs) in [(96, 7), (8, 4), (101, 13), (3, 2)] {
                let w: Vec<u16> = wave(outputs * inputs, 0.37).into_iter().map(|v| kind.narrow(v)).collect();
                let largest = 9;
                let x = wave(largest * inputs, 0.91);
                let run = |x: &[f32], columns: std::ops::Range<usize>| {
                    let rows = x.len() / inputs;
                    let mut y = vec![0f32; rows * outputs];
                    let product = Product { columns, ..Product::whole(inputs, outputs, rows) };
                    // SAFETY: one call at a time.
                    unsafe { product_half(&product, kind, &w, x, &DisjointSliceMut::new(&mut y)) };
                    y
                };
                for rows in 1..=largest {
                    let together = run(&x[..rows * inputs], 0..outputs);
                    for r in 0..rows {
                        let alone = run(&x[r * inputs..(r + 1) * inputs], 0..outputs);
                        let ours = &together[r * outputs..(r + 1) * outputs];
                        assert!(
                            alone.iter().zip(ours).all(|(a, b)| a.to_bits() == b.to_bits()),
                            "{kind:?} {rows}"
                        );
                        for (o, dot) in ours.iter().enumerate() {
                            let wide = |i: usize| f64::from(kind.widen(w[o * inputs + i]));
                            let exact: f64 =
                                (0..inputs).map(|i| wide(i) * f64::from(x[r * inputs + i])).sum();
                            assert!((f64::from(*dot) - exact).abs() < 1e-4);
                        }
                    }
                }
                // A product of some columns does not write the others.
                let part = run(&x, 1..outputs);
                assert!(part[0] == 0.0 && part[1] == run(&x, 0..outputs)[1]);
            }
        }
    }

    #[test]
    fn the_portable_implementation_gives_the_same_bits() {
        for kind in [HalfKind::F16, HalfKind::Bf16] {
            let w: Vec<u16> = wave(101, 0.3).into_iter().map(|v| kind.narrow(v)).collect();
            let x = wave(101, 0.7);
            let exact: f64 = w.iter().zip(&x).map(|(&w, &x)| f64::from(kind.widen(w)) * f64::from(x)).sum();
            let (portable, mut y) = (dot(kind, &w, &x), [0.0]);
            assert!((f64::from(portable) - exact).abs() < 1e-4);
            // SAFETY: one call at a time.
            unsafe {
                product_half(&Product::whole(101, 1, 1), kind, &w, &x, &DisjointSliceMut::new(&mut y));
            }
            assert_eq!(y[0].to_bits(), portable.to_bits());
        }
    }
}
