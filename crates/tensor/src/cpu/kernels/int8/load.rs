//! Loading blocks of eight outputs.

use super::{
    LANES,
    v::{self, Floats, Ints},
};

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
    #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,f16c"))]
    pub unsafe fn words(&self, at: usize) -> [Ints; 4] {
        // SAFETY: as the caller guarantees.
        let z: [Ints; 4] = std::array::from_fn(|i| unsafe {
            v::load_halves(self.rows[i].add(at), self.rows[i + 4].add(at))
        });
        let (a, b) = (v::zip_low(z[0], z[1]), v::zip_low(z[2], z[3]));
        let (c, d) = (v::zip_high(z[0], z[1]), v::zip_high(z[2], z[3]));
        [v::pairs_low(a, b), v::pairs_high(a, b), v::pairs_low(c, d), v::pairs_high(c, d)]
    }

    /// The half-precision floats at a byte of the rows.
    ///
    /// SAFETY: every row has two bytes from `at` on.
    #[inline]
    #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,f16c"))]
    pub(crate) unsafe fn halfs(&self, at: usize) -> Floats {
        let mut bits = [0u16; LANES];
        for (bits, row) in bits.iter_mut().zip(self.rows) {
            // SAFETY: as the caller guarantees.
            *bits = unsafe { row.add(at).cast::<u16>().read_unaligned() };
        }
        // SAFETY: eight values of 16 bits.
        unsafe { v::load_f16(bits.as_ptr()) }
    }
}
