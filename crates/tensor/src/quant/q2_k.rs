use super::{BlockType, Unpacked, panels::Array, unpack_scale};

/// Sixteen bytes with scale (low) and minimum (high) of 16 values, 64 bytes with two bits of each value, and the scales of scales
/// and minima.
pub(crate) struct Q2K;

impl BlockType for Q2K {
    const NAME: &'static str = "q2_k";
    const NUMBER: u32 = 10;
    const VALUES: usize = 256;
    const BYTES: usize = 84;
    const PART: usize = 16;
    const MINIMA: bool = true;
    const HALVES: &'static [usize] = &[80, 82];
    const ARRAYS: &'static [Array] =
        &[Array::LOWER_TWO_BITS, Array::SCALES_AND_MINIMA_OF_HALVES, Array::SCALE_AND_MINIMUM_OF_EIGHT];
    const SHADER: &'static str = include_str!("../gpu/shaders/block_q2_k.wgsl");

    fn unpack(block: &[u8], to: &mut Unpacked) {
        unpack_scale::<Self>(block, to);
        for (j, both) in block[..16].iter().enumerate() {
            (to.scales[j], to.minima[j]) = ((both & 15).cast_signed(), both >> 4);
        }
        for (thirty_two, to) in to.quants.chunks_exact_mut(32).enumerate() {
            let (bits, shift) = (&block[16 + thirty_two / 4 * 32..], thirty_two % 4 * 2);
            to.iter_mut().zip(bits).for_each(|(to, bits)| *to = (bits >> shift & 3).cast_signed());
        }
    }
}
