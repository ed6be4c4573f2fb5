use super::{
    BlockType, Unpacked,
    panels::Array,
    quantize::{self, Quantizer},
    unpack_nibbles, unpack_scale,
};

/// A scale, and four bits of each value.
pub(crate) struct Q4_0;

impl BlockType for Q4_0 {
    const NAME: &'static str = "q4_0";
    const NUMBER: u32 = 2;
    const VALUES: usize = 32;
    const BYTES: usize = 18;
    const ZERO: i8 = 8;
    const QUANTIZER: Option<Quantizer> = Some(quantize::q4_0);
    const ARRAYS: &'static [Array] = &[Array::NIBBLES, Array::SCALE];
    const SHADER: &'static str = include_str!("../gpu/shaders/block_q4_0.wgsl");

    fn unpack(block: &[u8], to: &mut Unpacked) {
        unpack_scale::<Self>(block, to);
        unpack_nibbles::<Self>(block, to);
    }
}
