//! Dot products for x86-64.

use std::arch::{asm, x86_64::*};

use super::{
    super::has_avx2, Arranged, BlockRows, DisjointSliceMut, Keys8, Panels, Product, Queries8, Rows8,
    implementations, int8_kernels,
};

/// True if the processor has what all implementations need.
fn usable() -> bool {
    has_avx2() && is_x86_feature_detected!("f16c")
}

/// True if the processor has AVX-512's dot products in vectors of 256 bits.
fn has_avx512_vnni() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512vnni")
}

implementations! {
    AvxVnni in avx_vnni: "avx2,fma,f16c,avxvnni", if usable() && is_x86_feature_detected!("avxvnni"),
        rows 6, signed false, dots_avx_vnni;
    Avx512Vnni in avx512_vnni: "avx2,fma,f16c,avx512f,avx512vl,avx512vnni", if usable() && has_avx512_vnni(),
        rows 6, signed false, dots_avx512_vnni;
    Avx2 in avx2: "avx2,fma,f16c", if usable(), rows 6, signed true, dots_avx2;
}

/// Defines `dots`, see [`implementations`]: `$dot(sum, w, x)` adds products of four integers each, unsigned times signed, to the
/// lanes of `sum`.
macro_rules! dots {
    ($name:ident, $features:literal, signed $signed:literal, $dot:ident) => {
        /// SAFETY: the groups exist, and each row `x[r * row ..]` has as many inputs.
        #[inline]
        #[target_feature(enable = $features)]
        unsafe fn $name<const R: usize, const GROUPS: usize, const SIGNED: bool>(
            groups: *const u8,
            stride: usize,
            x: *const i8,
            row: usize,
            start: [__m256i; R],
        ) -> [__m256i; R] {
            let mut dots = start;
            for g in 0..GROUPS {
                // SAFETY: as the caller guarantees.
                let w = unsafe { _mm256_loadu_si256(groups.add(g * stride).cast()) };
                let signed = SIGNED && $signed;
                let w = if signed { _mm256_xor_si256(w, _mm256_set1_epi8(-128)) } else { w };
                let magnitude = if signed { _mm256_abs_epi8(w) } else { w };
                for r in 0..R {
                    // SAFETY: as the caller guarantees.
                    let four = unsafe { x.add(r * row + g * 4).cast::<i32>().read_unaligned() };
                    let four = _mm256_set1_epi32(four);
                    let four = if signed { _mm256_sign_epi8(four, w) } else { four };
                    dots[r] = $dot(dots[r], magnitude, four);
                }
            }
            dots
        }
    };
}

#[inline]
#[target_feature(enable = "avxvnni,avx2")]
fn dot_avx_vnni(sum: __m256i, w: __m256i, x: __m256i) -> __m256i {
    _mm256_dpbusd_avx_epi32(sum, w, x)
}

#[inline]
#[target_feature(enable = "avx512f,avx512vl,avx512vnni")]
fn dot_avx512_vnni(sum: __m256i, w: __m256i, x: __m256i) -> __m256i {
    _mm256_dpbusd_epi32(sum, w, x)
}

/// The sums of two products must fit into 16 bits.
///
/// Assembly, so that products are added in the order in which they are written. The compiler would add them in another one, rows before
/// groups, which needs all groups of a block at once: more than there are registers.
#[inline]
#[target_feature(enable = "avx2")]
fn dot_avx2(mut sum: __m256i, w: __m256i, x: __m256i) -> __m256i {
    // SAFETY: the instructions only compute. They are not `pure`, which would let them be moved.
    unsafe {
        asm!(
            "vpmaddubsw {x}, {w}, {x}",
            "vpmaddwd {x}, {x}, {ones}",
            "vpaddd {sum}, {sum}, {x}",
            sum = inout(ymm_reg) sum,
            w = in(ymm_reg) w,
            x = inout(ymm_reg) x => _,
            ones = in(ymm_reg) _mm256_set1_epi16(1),
            options(nomem, nostack, preserves_flags)
        );
    }
    sum
}

dots!(dots_avx_vnni, "avx2,fma,f16c,avxvnni", signed false, dot_avx_vnni);
dots!(dots_avx512_vnni, "avx2,fma,f16c,avx512f,avx512vl,avx512vnni", signed false, dot_avx512_vnni);
dots!(dots_avx2, "avx2,fma,f16c", signed true, dot_avx2);
