use super::{
    BlockType, Unpacked,
    panels::Array,
    quantize::{self, Quantizer},
    unpack_nibbles, unpack_scale,
};

/// Scale and minimum, the fifth bits, and four bits of each value.
pub(crate) struct Q5_1;

impl BlockType for Q5_1 {
    const NAME: &'static str = "q5_1";
    const NUMBER: u32 = 7;
    const VALUES: usize = 32;
    const BYTES: usize = 24;
    const FIFTHS: bool = true;
    const MINIMA: bool = true;
    const QUANTIZER: Option<Quantizer> = Some(quantize::q5_1);
    const ARRAYS: &'static [Array] = &[Array::NIBBLES, Array::FIFTH_BITS, Array::SCALE_AND_MINIMUM];
    const SHADER: &'static str = include_str!("../gpu/shaders/block_q5_1.wgsl");

    fn unpack(block: &[u8], to: &mut Unpacked) {
        unpack_scale::<Self>(block, to);
        // It is added.
        to.minimum = -to.minimum;
        unpack_nibbles::<Self>(block, to);
    }
}
