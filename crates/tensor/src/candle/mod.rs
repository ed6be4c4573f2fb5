//! Accelerators through candle's tensors: CUDA and Metal, and candle's CPU kernels in tests.

pub mod attention;
pub mod cache;
pub mod linear;
pub mod mask;
pub mod mixing;
pub mod recurrent;
