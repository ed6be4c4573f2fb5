use super::{
    BlockType, Unpacked,
    codebook::{TWO, TWO_SIGNED, eights, even, odd, signed, u16_at},
    sized, unpack_scale,
};

static CODEBOOK: [u64; 512] = eights(include_bytes!("codebooks/iq2_xs.bin"), TWO);

/// A scale, for each eight values nine bits with an entry of the codebook and seven signs, and four bits for each 16 values, of a
/// scale 2 n + 1, in eighths.
pub(crate) struct Iq2Xs;

impl BlockType for Iq2Xs {
    const NAME: &'static str = "iq2_xs";
    const NUMBER: u32 = 17;
    const VALUES: usize = 256;
    const BYTES: usize = 74;
    const PART: usize = 16;
    const TABLE: Option<[i8; 16]> = Some(TWO_SIGNED);
    const UNIT: f32 = 0.125;

    fn unpack(block: &[u8], to: &mut Unpacked) {
        let block = sized::<{ Self::BYTES }>(block);
        unpack_scale::<Self>(block, to);
        for (pair, both) in to.scales.as_chunks_mut().0.iter_mut().zip(&block[66..]) {
            *pair = [odd(*both), odd(both >> 4)];
        }
        for (i, to) in to.quants.as_chunks_mut().0.iter_mut().enumerate() {
            let bits = u16_at(block, 2 + 2 * i);
            *to = signed(CODEBOOK[usize::from(bits & 511)], even((bits >> 9) as u8));
        }
    }
}
