//! Products in fixed point in vectors of eight lanes: AVX2, AVX-VNNI, and NEON.

use super::{
    super::{
        super::{BLOCK, SLOTS, int8::Int8},
        FEW, SEGMENT, Weights,
    },
    ByteValues, FixedKeys, FixedRows, FixedValues,
};

macro_rules! kernels {
    ($name:ident, $add_pairs:path, $features:literal, scores [$($scores:tt)+], sums [$($sums:tt)+]) => {
        mod $name {
            use super::{
                super::{
                    super::super::vectors::{
                        Ints as Words, arrange, byte_group, byte_words, fma, load, load_ints, mul, no_sums,
                        read_soon, splat, splat_int, store, to_floats, total_pairs,
                    },
                    tiles::{fixed_tiles, tile},
                },
                *,
            };
            use $add_pairs as add_pairs;

            /// SAFETY: eight words can be read.
            #[inline]
            #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma"))]
            unsafe fn load_words(at: *const [i16; 2]) -> Words {
                // SAFETY: the caller's.
                unsafe { load_ints(at.cast()) }
            }

            /// SAFETY: two integers can be read.
            #[inline]
            #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma"))]
            unsafe fn splat_word(at: *const i16) -> Words {
                // SAFETY: the caller's.
                splat_int(unsafe { at.cast::<i32>().read_unaligned() })
            }

            #[inline]
            #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma"))]
            fn totals(sums: PairSums) -> Floats {
                to_floats(total_pairs(sums))
            }

            fixed_tiles!($features, lanes 8, scores [$($scores)+], sums [$($sums)+]);
        }
    };
}

use super::super::super::vectors::{Floats, PairSums};

#[cfg(target_arch = "x86_64")]
kernels!(
    avx2, super::super::super::super::vectors::add_pairs, "avx2,fma",
    scores [1 x 8, 2 x 4, 3 x 2, 4 x 2], sums [1 x 4, 2 x 4, 3 x 2, 4 x 2]
);
#[cfg(target_arch = "x86_64")]
kernels!(
    avx_vnni, super::add_pairs_vnni, "avx2,fma,avxvnni",
    scores [1 x 8, 2 x 4, 3 x 4, 4 x 2, 5 x 2, 6 x 2], sums [1 x 4, 2 x 4, 3 x 4, 4 x 2, 5 x 2, 6 x 2]
);
#[cfg(target_arch = "aarch64")]
kernels!(
    neon, super::super::super::super::vectors::add_pairs, "neon",
    scores [1 x 4, 2 x 2, 3 x 1, 4 x 1], sums [1 x 4, 2 x 2, 3 x 1, 4 x 1]
);

/// As [`add_pairs`](super::super::super::vectors::add_pairs), in one instruction. Not the intrinsic, which LLVM takes apart.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2,avxvnni")]
fn add_pairs_vnni(
    mut sum: std::arch::x86_64::__m256i,
    a: std::arch::x86_64::__m256i,
    b: std::arch::x86_64::__m256i,
) -> std::arch::x86_64::__m256i {
    // SAFETY: the instruction is AVX-VNNI's; it changes nothing but the sum.
    unsafe {
        std::arch::asm!(
            "{{vex}} vpdpwssd {sum}, {a}, {b}",
            sum = inout(ymm_reg) sum, a = in(ymm_reg) a, b = in(ymm_reg) b,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    sum
}

/// See [`super::Instructions::scores_fixed`].
///
/// SAFETY: the features were detected; the blocks can be read, and `out` holds rows of `stride` values.
pub unsafe fn scores(
    int8: Int8,
    own: (&[i16], &[f32]),
    d: usize,
    keys: FixedKeys<'_>,
    blocks: usize,
    out: &mut [f32],
    stride: usize,
) {
    // SAFETY: as the caller guarantees.
    unsafe {
        match int8 {
            #[cfg(target_arch = "x86_64")]
            Int8::AvxVnni => avx_vnni::scores(own, d, keys, blocks, out, stride),
            #[cfg(target_arch = "x86_64")]
            Int8::Avx512Vnni | Int8::Avx2 => avx2::scores(own, d, keys, blocks, out, stride),
            #[cfg(target_arch = "aarch64")]
            Int8::I8mm | Int8::DotProd | Int8::Neon => neon::scores(own, d, keys, blocks, out, stride),
        }
    }
}

/// See [`super::Instructions::add_weighted_fixed`].
///
/// SAFETY: the features were detected; weights, integers and factors are of as many queries as `out` has rows of `d` values, a
/// multiple of 32; the slots can be read, in pairs.
pub unsafe fn add_weighted(
    int8: Int8,
    weights: (Weights<'_>, &[i16], &[f32]),
    values: FixedRows<'_>,
    d: usize,
    out: &mut [f32],
) {
    // SAFETY: as the caller guarantees.
    unsafe {
        match int8 {
            #[cfg(target_arch = "x86_64")]
            Int8::AvxVnni => avx_vnni::add_weighted(weights, values, d, out),
            #[cfg(target_arch = "x86_64")]
            Int8::Avx512Vnni | Int8::Avx2 => avx2::add_weighted(weights, values, d, out),
            #[cfg(target_arch = "aarch64")]
            Int8::I8mm | Int8::DotProd | Int8::Neon => neon::add_weighted(weights, values, d, out),
        }
    }
}
