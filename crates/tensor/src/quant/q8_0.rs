use super::{
    BlockType, Unpacked,
    panels::Array,
    quantize::{self, Quantizer},
    unpack_scale,
};

/// A scale, and 32 signed bytes.
pub(crate) struct Q8_0;

impl BlockType for Q8_0 {
    const NAME: &'static str = "q8_0";
    const NUMBER: u32 = 8;
    const VALUES: usize = 32;
    const BYTES: usize = 34;
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    const SIGNED: bool = true;
    const QUANTIZER: Option<Quantizer> = Some(quantize::q8_0);
    const ARRAYS: &'static [Array] = &[Array::BYTES, Array::SCALE];
    const SHADER: &'static str = include_str!("../gpu/shaders/block_q8_0.wgsl");

    fn unpack(block: &[u8], to: &mut Unpacked) {
        unpack_scale::<Self>(block, to);
        for (to, q) in to.quants.iter_mut().zip(&block[2..]) {
            *to = q.cast_signed();
        }
    }

    #[cfg(test)]
    fn fill_largest(block: &mut [u8]) {
        block.fill(0x81);
    }
}
