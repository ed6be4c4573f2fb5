use super::{
    BlockType, Unpacked,
    panels::Array,
    quantize::{self, Quantizer},
    unpack_scale,
};

/// The scales of scales and minima, eight of each with 6 bits in twelve bytes, and 128 bytes of which byte `i` of each 32 has
/// the values `i` (low) and `32 + i` (high) of 64.
pub(crate) struct Q4K;

impl BlockType for Q4K {
    const NAME: &'static str = "q4_k";
    const NUMBER: u32 = 12;
    const VALUES: usize = 256;
    const BYTES: usize = 144;
    const MINIMA: bool = true;
    const QUANTIZER: Option<Quantizer> = Some(quantize::q4_k);
    const ARRAYS: &'static [Array] =
        &[Array::NIBBLES, Array::SCALES_AND_MINIMA, Array::SCALE_AND_MINIMUM_OF_EIGHT];
    const SHADER: &'static str = include_str!("../gpu/shaders/block_q4_k.wgsl");

    fn unpack(block: &[u8], to: &mut Unpacked) {
        unpack_scales(block, to);
        for (quants, to) in block[16..].chunks_exact(32).zip(to.quants.chunks_exact_mut(64)) {
            for (i, q) in quants.iter().enumerate() {
                (to[i], to[i + 32]) = ((q & 15).cast_signed(), (q >> 4).cast_signed());
            }
        }
    }
}

/// Unpack the scales and minima of q4_k and q5_k, the first 16 bytes of a block.
pub(super) fn unpack_scales(block: &[u8], to: &mut Unpacked) {
    unpack_scale::<Q4K>(block, to);
    let packed = &block[4..16];
    for j in 0..8 {
        let (scale, minimum) = if j < 4 {
            (packed[j] & 63, packed[j + 4] & 63)
        } else {
            let low = packed[j + 4];
            (low & 15 | packed[j - 4] >> 6 << 4, low >> 4 | packed[j] >> 6 << 4)
        };
        (to.scales[j], to.minima[j]) = (scale.cast_signed(), minimum);
    }
}
