//! Values to blocks, with the least squared error that a search finds.
//!
//! A block's values are about `scale q` or `scale q + offset` for small integers `q`. For given integers, the best scale and offset
//! are a linear regression; for given scale and offset, the best integers are the nearest ones. So each search ([`scale`],
//! [`offset`]) starts from several scales, takes the regression with the least error, and rounds the result as the type stores it
//! ([`narrow`]: 16-bit floats; [`wide`]: integers times such a float). Every part of a block weighs the same: the error is that of
//! the weights, for any inputs.
//!
//! A block's bytes depend on its values alone: on no other block, and on no thread.

mod lanes;
mod narrow;
mod offset;
mod scale;
mod wide;

#[cfg(test)]
mod tests;

/// Quantizes values to as many blocks, as bytes. Values are finite and at most [`LARGEST`] in magnitude.
pub(crate) type Quantizer = fn(&[f32], &mut [u8]);

/// The largest magnitude whose scale and offset are 16-bit floats in every type.
pub(crate) const LARGEST: f32 = 65504.0;

pub(super) use narrow::{iq4_nl, q4_0, q4_1, q5_0, q5_1, q8_0};
pub(super) use wide::{q3_k, q4_k, q5_k, q6_k};
