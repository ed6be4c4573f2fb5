//! Vectors of eight 32-bit lanes, for kernels whose text is the same on all processors: a vector of AVX2, or a pair of NEON's.
//!
//! Every function is one operation with one result in all implementations: what is written over them gives the same bits
//! everywhere. Integer vectors also hold 32 bytes, or two halves of 16.

#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(target_arch = "aarch64")]
pub use neon::*;
#[cfg(target_arch = "x86_64")]
pub use x86::*;

/// Lanes of a vector.
pub const LANES: usize = 8;
