use super::{
    BlockType, Unpacked,
    panels::Array,
    quantize::{self, Quantizer},
    unpack_scale,
};

/// 128 bytes with the lower four bits of the values, 64 bytes with the upper two, sixteen signed scales, and their scale.
pub(crate) struct Q6K;

impl BlockType for Q6K {
    const NAME: &'static str = "q6_k";
    const NUMBER: u32 = 14;
    const VALUES: usize = 256;
    const BYTES: usize = 210;
    const PART: usize = 16;
    const ZERO: i8 = 32;
    const HALVES: &'static [usize] = &[208];
    const QUANTIZER: Option<Quantizer> = Some(quantize::q6_k);
    const ARRAYS: &'static [Array] =
        &[Array::NIBBLES, Array::UPPER_TWO_BITS, Array::SCALES_OF_HALVES, Array::SCALE_OF_EIGHT];
    const SHADER: &'static str = include_str!("../gpu/shaders/block_q6_k.wgsl");

    fn unpack(block: &[u8], to: &mut Unpacked) {
        unpack_scale::<Self>(block, to);
        for (to, scale) in to.scales.iter_mut().zip(&block[192..208]) {
            *to = scale.cast_signed();
        }
        for (half, to) in to.quants.chunks_exact_mut(128).enumerate() {
            let (low, high) = (&block[half * 64..], &block[128 + half * 32..]);
            for i in 0..32 {
                let q = |low: u8, shift: u8| (low & 15 | (high[i] >> shift & 3) << 4).cast_signed();
                to[i] = q(low[i], 0);
                to[i + 32] = q(low[i + 32], 2);
                to[i + 64] = q(low[i] >> 4, 4);
                to[i + 96] = q(low[i + 32] >> 4, 6);
            }
        }
    }

    #[cfg(test)]
    fn fill_largest(block: &mut [u8]) {
        block.fill(0xff);
        block[192..208].fill(0x80);
    }
}
