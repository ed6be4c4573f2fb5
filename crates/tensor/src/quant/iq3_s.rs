use super::{
    BlockType, Unpacked,
    codebook::{fours, odd, pair, signed, with_signs},
    sized, unpack_scale,
};

const MAGNITUDES: [i8; 8] = [1, 3, 5, 7, 9, 11, 13, 15];
static CODEBOOK: [u32; 512] = fours(include_bytes!("codebooks/iq3_s.bin"), MAGNITUDES);

/// A scale, 64 bytes with entries of the codebook, each of four values, eight bytes with the entries' ninth bits, a byte of signs for
/// each eight values, and four bits for each 32, of a scale 2 n + 1.
pub(crate) struct Iq3S;

impl BlockType for Iq3S {
    const NAME: &'static str = "iq3_s";
    const NUMBER: u32 = 21;
    const VALUES: usize = 256;
    const BYTES: usize = 110;
    const TABLE: Option<[i8; 16]> = Some(with_signs(&MAGNITUDES));

    fn unpack(block: &[u8], to: &mut Unpacked) {
        let block = sized::<{ Self::BYTES }>(block);
        unpack_scale::<Self>(block, to);
        for (pair, both) in to.scales.as_chunks_mut().0.iter_mut().zip(&block[106..]) {
            *pair = [odd(*both), odd(both >> 4)];
        }
        let ninth = |i: usize| usize::from(block[66 + i / 8] >> (i % 8) & 1) << 8;
        let entry = |i: usize| CODEBOOK[usize::from(block[2 + i]) | ninth(i)];
        for (i, to) in to.quants.as_chunks_mut().0.iter_mut().enumerate() {
            *to = signed(pair(entry(2 * i), entry(2 * i + 1)), block[74 + i]);
        }
    }
}
