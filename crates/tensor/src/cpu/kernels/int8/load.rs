//! Loading blocks of eight outputs.

use std::arch::x86_64::*;

use super::LANES;

/// The rows of eight outputs.
pub struct Outputs {
    /// The first byte of each; outputs beyond the matrix repeat the last one.
    rows: [*const u8; LANES],
}

impl Outputs {
    /// `taken` rows of `bytes` bytes.
    ///
    /// SAFETY: there are `taken` rows from `first` on.
    pub unsafe fn new(first: *const u8, bytes: usize, taken: usize) -> Self {
        // SAFETY: as the caller guarantees.
        Self { rows: std::array::from_fn(|i| unsafe { first.add(i.min(taken - 1) * bytes) }) }
    }

    /// Rows of memory.
    pub fn of(rows: [*const u8; LANES]) -> Self {
        Self { rows }
    }

    /// A block of an output.
    ///
    /// SAFETY: the output has so many bytes from `at` on.
    pub unsafe fn block(&self, output: usize, at: usize, bytes: usize) -> &[u8] {
        // SAFETY: as the caller guarantees.
        unsafe { std::slice::from_raw_parts(self.rows[output].add(at), bytes) }
    }

    /// Four columns of 32-bit words of the outputs: the word at byte `at + 4 i` of all in vector `i`.
    ///
    /// SAFETY: every row has 16 bytes from `at` on.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub unsafe fn words(&self, at: usize) -> [__m256i; 4] {
        // SAFETY: as the caller guarantees.
        let z: [__m256i; 4] = std::array::from_fn(|i| unsafe {
            let part = |o: usize| _mm_loadu_si128(self.rows[o].add(at).cast());
            _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(part(i)), part(i + 4))
        });
        let (a, b) = (_mm256_unpacklo_epi32(z[0], z[1]), _mm256_unpacklo_epi32(z[2], z[3]));
        let (c, d) = (_mm256_unpackhi_epi32(z[0], z[1]), _mm256_unpackhi_epi32(z[2], z[3]));
        [
            _mm256_unpacklo_epi64(a, b),
            _mm256_unpackhi_epi64(a, b),
            _mm256_unpacklo_epi64(c, d),
            _mm256_unpackhi_epi64(c, d),
        ]
    }

    /// The half-precision floats at a byte of the rows.
    ///
    /// SAFETY: every row has two bytes from `at` on.
    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    pub(crate) unsafe fn halfs(&self, at: usize) -> __m256 {
        let mut bits = [0u16; LANES];
        for (bits, row) in bits.iter_mut().zip(self.rows) {
            // SAFETY: as the caller guarantees.
            *bits = unsafe { row.add(at).cast::<u16>().read_unaligned() };
        }
        // SAFETY: eight values of 16 bits.
        unsafe { _mm256_cvtph_ps(_mm_loadu_si128(bits.as_ptr().cast())) }
    }
}
