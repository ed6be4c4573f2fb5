use super::{
    BlockType, Unpacked,
    panels::Array,
    quantize::{self, Quantizer},
    unpack_scale,
};

/// 32 bytes of which bit `j` of byte `i` is the third bit of value `i` of each 32 in turn, 64 bytes with the lower two bits, sixteen
/// scales of 6 bits less 32 in twelve bytes, and their scale.
pub(crate) struct Q3K;

impl BlockType for Q3K {
    const NAME: &'static str = "q3_k";
    const NUMBER: u32 = 11;
    const VALUES: usize = 256;
    const BYTES: usize = 110;
    const PART: usize = 16;
    const ZERO: i8 = 4;
    const HALVES: &'static [usize] = &[108];
    const QUANTIZER: Option<Quantizer> = Some(quantize::q3_k);
    const ARRAYS: &'static [Array] =
        &[Array::LOWER_TWO_BITS, Array::THIRD_BITS, Array::SCALES_OF_HALVES, Array::SCALE_OF_EIGHT];
    const SHADER: &'static str = include_str!("../gpu/shaders/block_q3_k.wgsl");

    fn unpack(block: &[u8], to: &mut Unpacked) {
        unpack_scale::<Self>(block, to);
        let (low, high) = block[96..108].split_at(8);
        for (j, scale) in to.scales.iter_mut().enumerate() {
            let (four, two) = (low[j % 8] >> (j / 8 * 4) & 15, high[j % 4] >> (j / 4 * 2) & 3);
            *scale = (four | two << 4).cast_signed() - 32;
        }
        for (thirty_two, to) in to.quants.chunks_exact_mut(32).enumerate() {
            let (low, shift) = (&block[32 + thirty_two / 4 * 32..], thirty_two % 4 * 2);
            for (i, to) in to.iter_mut().enumerate() {
                *to = (low[i] >> shift & 3 | (block[i] >> thirty_two & 1) << 2).cast_signed();
            }
        }
    }
}
