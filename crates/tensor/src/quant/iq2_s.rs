use super::{
    BlockType, Unpacked,
    codebook::{TWO, TWO_SIGNED, eights, odd, signed},
    sized, unpack_scale,
};

static CODEBOOK: [u64; 1024] = eights(include_bytes!("codebooks/iq2_s.bin"), TWO);

/// A scale, for each eight values a byte of an entry of the codebook, a byte of signs, and two upper bits of the entry, and four bits
/// for each 16 values, of a scale 2 n + 1, in eighths.
pub(crate) struct Iq2S;

impl BlockType for Iq2S {
    const NAME: &'static str = "iq2_s";
    const NUMBER: u32 = 22;
    const VALUES: usize = 256;
    const BYTES: usize = 82;
    const PART: usize = 16;
    const TABLE: Option<[i8; 16]> = Some(TWO_SIGNED);
    const UNIT: f32 = 0.125;

    fn unpack(block: &[u8], to: &mut Unpacked) {
        let block = sized::<{ Self::BYTES }>(block);
        unpack_scale::<Self>(block, to);
        for (pair, both) in to.scales.as_chunks_mut().0.iter_mut().zip(&block[74..]) {
            *pair = [odd(*both), odd(both >> 4)];
        }
        for (i, to) in to.quants.as_chunks_mut().0.iter_mut().enumerate() {
            let upper = usize::from(block[66 + i / 4] >> (i % 4 * 2) & 3) << 8;
            *to = signed(CODEBOOK[usize::from(block[2 + i]) | upper], block[34 + i]);
        }
    }
}
