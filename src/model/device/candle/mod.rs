//! Accelerators through candle's tensors: CUDA and Metal, and candle's CPU kernels in tests.

pub(in crate::model) mod attention;
pub(in crate::model) mod cache;
pub(in crate::model) mod linear;
pub(in crate::model) mod mask;
pub(in crate::model) mod mixing;
pub(in crate::model) mod ops;
pub(in crate::model) mod recurrent;
mod tower;
