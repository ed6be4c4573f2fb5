//! Attention in vectors of eight lanes: AVX2 and NEON.

use super::{
    super::{
        SLOTS,
        vectors::{Floats, LANES, fma, load, load_f16, splat, store, zeros},
    },
    Weights,
    tiles::attention_tiles,
};

attention_tiles!(
    "avx2,fma", Floats, width 8, queries 4, f32, load, zeros, load, store, splat, fma,
    scores [1 x 8, 2 x 4, 3 x 2, 4 x 2], sums [1 x 4, 2 x 4, 3 x 2, 4 x 2, 5 x 2, 6 x 2]
);

/// Widen 16-bit floats, as many as both slices have.
///
/// SAFETY: the features were detected.
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,f16c"))]
pub unsafe fn widen_f16(values: &[u16], out: &mut [f32]) {
    let (values, rest) = values[..values.len().min(out.len())].as_chunks::<LANES>();
    let (out, last) = out.as_chunks_mut::<LANES>();
    for (values, out) in values.iter().zip(out) {
        // SAFETY: both hold eight values.
        unsafe { store(out.as_mut_ptr(), load_f16(values.as_ptr())) };
    }
    for (&bits, out) in rest.iter().zip(last) {
        *out = ::half::f16::from_bits(bits).to_f32();
    }
}
