use super::{
    BlockType, Unpacked,
    codebook::{odd, u16_at},
    iq1_s::{CODEBOOKS, TABLE},
    sized,
};

/// As iq1_s, with the sign of the eighth for each eight values: a byte of an entry for each, four bits with the entry's upper three
/// and the sign, and eight bytes with sixteen scales of three bits, of which the upper four bits of each two are the block's.
pub(crate) struct Iq1M;

impl BlockType for Iq1M {
    const NAME: &'static str = "iq1_m";
    const NUMBER: u32 = 29;
    const VALUES: usize = 256;
    const BYTES: usize = 56;
    const PART: usize = 16;
    const TABLE: Option<[i8; 16]> = Some(TABLE);
    const HALVES: &'static [usize] = &[];
    const UNIT: f32 = 0.125;

    fn unpack(block: &[u8], to: &mut Unpacked) {
        let block = sized::<{ Self::BYTES }>(block);
        to.scale = Self::scale(block);
        for (j, scale) in to.scales.iter_mut().enumerate() {
            *scale = odd((u16_at(block, 48 + j / 4 * 2) >> (j % 4 * 3) & 7) as u8);
        }
        for (i, to) in to.quants.as_chunks_mut().0.iter_mut().enumerate() {
            let upper = usize::from(block[32 + i / 2] >> (i % 2 * 4) & 15);
            let entry = usize::from(block[i]) | (upper & 7) << 8;
            *to = CODEBOOKS[upper >> 3][entry].to_le_bytes().map(u8::cast_signed);
        }
    }

    #[cfg(test)]
    fn set_scales(block: &mut [u8], scale: f32) {
        let bits = half::f16::from_f32(scale).to_bits();
        for i in 0..4 {
            let byte = &mut block[49 + 2 * i];
            *byte = *byte & 15 | (bits >> (4 * i) << 4) as u8;
        }
    }
}

impl Iq1M {
    pub(crate) fn scale(block: &[u8]) -> f32 {
        let four = |i: usize| u16::from(block[49 + 2 * i] >> 4) << (4 * i);
        half::f16::from_bits(four(0) | four(1) | four(2) | four(3)).to_f32() * Self::UNIT
    }
}
