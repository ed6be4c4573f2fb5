use super::{
    BlockType, Unpacked,
    panels::Array,
    q4_k::unpack_scales,
    quantize::{self, Quantizer},
};

/// As q4_k, with 32 bytes before the others: bit `j` of byte `i` is the fifth bit of value `i` in part `j`.
pub(crate) struct Q5K;

impl BlockType for Q5K {
    const NAME: &'static str = "q5_k";
    const NUMBER: u32 = 13;
    const VALUES: usize = 256;
    const BYTES: usize = 176;
    const MINIMA: bool = true;
    const QUANTIZER: Option<Quantizer> = Some(quantize::q5_k);
    const ARRAYS: &'static [Array] =
        &[Array::NIBBLES, Array::FIFTH_BITS, Array::SCALES_AND_MINIMA, Array::SCALE_AND_MINIMUM_OF_EIGHT];
    const SHADER: &'static str = include_str!("../gpu/shaders/block_q5_k.wgsl");

    fn unpack(block: &[u8], to: &mut Unpacked) {
        unpack_scales(block, to);
        let (high, low) = (&block[16..48], &block[48..]);
        for (pair, (quants, to)) in low.chunks_exact(32).zip(to.quants.chunks_exact_mut(64)).enumerate() {
            for (i, q) in quants.iter().enumerate() {
                let bit = |part: usize| (high[i] >> part & 1) << 4;
                to[i] = (q & 15 | bit(2 * pair)).cast_signed();
                to[i + 32] = (q >> 4 | bit(2 * pair + 1)).cast_signed();
            }
        }
    }
}
