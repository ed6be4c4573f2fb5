use super::{BlockType, Unpacked, unpack_nibbles};

/// The exponent of the scale, and 4-bit floats (sign, two bits of exponent, one of mantissa) of the Open Compute Project's
/// "Microscaling Formats (MX)" 1.0. The table has them doubled, and the scale is halved.
pub(crate) struct Mxfp4;

impl BlockType for Mxfp4 {
    const NAME: &'static str = "mxfp4";
    const NUMBER: u32 = 39;
    const VALUES: usize = 32;
    const BYTES: usize = 17;
    const TABLE: Option<[i8; 16]> = Some([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12]);
    const HALVES: &'static [usize] = &[];

    fn unpack(block: &[u8], to: &mut Unpacked) {
        to.scale = Self::scale(block[0]);
        unpack_nibbles::<Self>(block, to);
    }

    #[cfg(test)]
    fn fill_largest(block: &mut [u8]) {
        block.fill(0x77);
    }

    #[cfg(test)]
    fn set_scales(block: &mut [u8], scale: f32) {
        block[0] = (scale.abs().to_bits() >> 23) as u8;
    }
}

impl Mxfp4 {
    /// 2^(exponent - 128), of which the two smallest are subnormal.
    pub(crate) fn scale(exponent: u8) -> f32 {
        f32::from_bits(match exponent {
            0 | 1 => 0x0020_0000 << exponent,
            _ => u32::from(exponent - 1) << 23,
        })
    }
}
