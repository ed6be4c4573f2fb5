use super::{
    BlockType, Unpacked,
    codebook::{TWO, TWO_SIGNED, eights, even, odd, signed, u32_at},
    sized, unpack_scale,
};

static CODEBOOK: [u64; 256] = eights(include_bytes!("codebooks/iq2_xxs.bin"), TWO);

/// A scale, and for each 32 values four bytes with entries of the codebook, four times seven signs, and four bits of a scale
/// 2 n + 1, in eighths.
pub(crate) struct Iq2Xxs;

impl BlockType for Iq2Xxs {
    const NAME: &'static str = "iq2_xxs";
    const NUMBER: u32 = 16;
    const VALUES: usize = 256;
    const BYTES: usize = 66;
    const TABLE: Option<[i8; 16]> = Some(TWO_SIGNED);
    const UNIT: f32 = 0.125;

    fn unpack(block: &[u8], to: &mut Unpacked) {
        let block = sized::<{ Self::BYTES }>(block);
        unpack_scale::<Self>(block, to);
        for (j, to_quants) in to.quants.chunks_exact_mut(32).enumerate() {
            let at = 2 + 8 * j;
            let signs = u32_at(block, at + 4);
            to.scales[j] = odd((signs >> 28) as u8);
            for (i, to) in to_quants.as_chunks_mut().0.iter_mut().enumerate() {
                *to = signed(CODEBOOK[usize::from(block[at + i])], even((signs >> (7 * i) & 127) as u8));
            }
        }
    }
}
