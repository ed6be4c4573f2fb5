use super::{
    BlockType, Unpacked,
    codebook::{even, fours, odd, pair, signed, u32_at, with_signs},
    sized, unpack_scale,
};

const MAGNITUDES: [i8; 8] = [4, 12, 20, 28, 36, 44, 52, 62];
static CODEBOOK: [u32; 256] = fours(include_bytes!("codebooks/iq3_xxs.bin"), MAGNITUDES);

/// A scale, 64 bytes with entries of the codebook, each of four values, and for each 32 values four times seven signs, and four bits
/// of a scale 2 n + 1, in quarters.
pub(crate) struct Iq3Xxs;

impl BlockType for Iq3Xxs {
    const NAME: &'static str = "iq3_xxs";
    const NUMBER: u32 = 18;
    const VALUES: usize = 256;
    const BYTES: usize = 98;
    const TABLE: Option<[i8; 16]> = Some(with_signs(&MAGNITUDES));
    const UNIT: f32 = 0.25;

    fn unpack(block: &[u8], to: &mut Unpacked) {
        let block = sized::<{ Self::BYTES }>(block);
        unpack_scale::<Self>(block, to);
        let entry = |i: usize| CODEBOOK[usize::from(block[2 + i])];
        for (j, to_quants) in to.quants.chunks_exact_mut(32).enumerate() {
            let signs = u32_at(block, 66 + 4 * j);
            to.scales[j] = odd((signs >> 28) as u8);
            for (i, to) in to_quants.as_chunks_mut().0.iter_mut().enumerate() {
                let first = 8 * j + 2 * i;
                *to = signed(pair(entry(first), entry(first + 1)), even((signs >> (7 * i) & 127) as u8));
            }
        }
    }
}
