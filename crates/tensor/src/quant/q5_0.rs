use super::{
    BlockType, Unpacked,
    panels::Array,
    quantize::{self, Quantizer},
    unpack_nibbles, unpack_scale,
};

/// A scale, the fifth bits, and four bits of each value.
pub(crate) struct Q5_0;

impl BlockType for Q5_0 {
    const NAME: &'static str = "q5_0";
    const NUMBER: u32 = 6;
    const VALUES: usize = 32;
    const BYTES: usize = 22;
    const ZERO: i8 = 16;
    const FIFTHS: bool = true;
    const QUANTIZER: Option<Quantizer> = Some(quantize::q5_0);
    const ARRAYS: &'static [Array] = &[Array::NIBBLES, Array::FIFTH_BITS, Array::SCALE];
    const SHADER: &'static str = include_str!("../gpu/shaders/block_q5_0.wgsl");

    fn unpack(block: &[u8], to: &mut Unpacked) {
        unpack_scale::<Self>(block, to);
        unpack_nibbles::<Self>(block, to);
    }
}
