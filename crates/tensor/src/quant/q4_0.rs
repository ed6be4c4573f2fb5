use candle_core::quantized::k_quants::BlockQ4_0;

use super::{BlockType, Quantizer, Unpacked, half_at};
#[cfg(target_arch = "x86_64")]
use crate::cpu::kernels::X86Kernels;
use crate::gpu::matrix::format::Array;

/// A scale, and 16 bytes of which byte `i` has the values `i` (low) and `16 + i` (high).
pub(crate) struct Q4_0;

impl BlockType for Q4_0 {
    const NAME: &'static str = "q4_0";
    const NUMBER: u32 = 2;
    const VALUES: usize = 32;
    const BYTES: usize = 18;
    const ZERO: i16 = 8;
    const QUANTIZER: Option<Quantizer> = Some(Quantizer::of::<BlockQ4_0>());
    const ARRAYS: &'static [Array] = &[Array::NIBBLES, Array::SCALE];
    const SHADER: &'static str = include_str!("../gpu/shaders/block_q4_0.wgsl");
    #[cfg(target_arch = "x86_64")]
    const X86: X86Kernels = X86Kernels::narrow::<Self>();

    fn unpack(block: &[u8], to: &mut Unpacked) {
        to.scale = half_at(block, 0);
        for (i, q) in block[2..].iter().enumerate() {
            (to.quants[i], to.quants[i + 16]) = (i16::from(q & 15), i16::from(q >> 4));
        }
    }
}
