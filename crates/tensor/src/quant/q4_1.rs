use super::{
    BlockType, Unpacked,
    panels::Array,
    quantize::{self, Quantizer},
    unpack_nibbles, unpack_scale,
};

/// Scale and minimum, and four bits of each value.
pub(crate) struct Q4_1;

impl BlockType for Q4_1 {
    const NAME: &'static str = "q4_1";
    const NUMBER: u32 = 3;
    const VALUES: usize = 32;
    const BYTES: usize = 20;
    const MINIMA: bool = true;
    const QUANTIZER: Option<Quantizer> = Some(quantize::q4_1);
    const ARRAYS: &'static [Array] = &[Array::NIBBLES, Array::SCALE_AND_MINIMUM];
    const SHADER: &'static str = include_str!("../gpu/shaders/block_q4_1.wgsl");

    fn unpack(block: &[u8], to: &mut Unpacked) {
        unpack_scale::<Self>(block, to);
        // It is added.
        to.minimum = -to.minimum;
        unpack_nibbles::<Self>(block, to);
    }
}
