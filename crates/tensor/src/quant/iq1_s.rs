use super::{
    BlockType, Unpacked,
    codebook::{eights, odd, u16_at, with_signs},
    sized, unpack_scale,
};

/// -1, 0 and 1, in eighths, with an eighth added.
pub(super) const TABLE: [i8; 16] = with_signs(&[1, 7, 9]);
/// With an eighth added, and with an eighth subtracted.
pub(super) static CODEBOOKS: [[u64; 2048]; 2] = [
    eights(include_bytes!("codebooks/iq1_s.bin"), [-7, 1, 9, 0]),
    eights(include_bytes!("codebooks/iq1_s.bin"), [-9, -1, 7, 0]),
];

/// A scale, for each eight values a byte of an entry of the codebook, and for each 32 values 16 bits: three upper bits of four
/// entries, three bits of a scale 2 n + 1, and the sign of an eighth that is added to the values -1, 0 and 1. Integers and scales are
/// in eighths.
pub(crate) struct Iq1S;

impl BlockType for Iq1S {
    const NAME: &'static str = "iq1_s";
    const NUMBER: u32 = 19;
    const VALUES: usize = 256;
    const BYTES: usize = 50;
    const TABLE: Option<[i8; 16]> = Some(TABLE);
    const UNIT: f32 = 0.125;

    fn unpack(block: &[u8], to: &mut Unpacked) {
        let block = sized::<{ Self::BYTES }>(block);
        unpack_scale::<Self>(block, to);
        for (j, to_quants) in to.quants.chunks_exact_mut(32).enumerate() {
            let bits = u16_at(block, 34 + 2 * j);
            to.scales[j] = odd((bits >> 12 & 7) as u8);
            let codebook = &CODEBOOKS[usize::from(bits >> 15)];
            for (i, to) in to_quants.as_chunks_mut().0.iter_mut().enumerate() {
                let entry = usize::from(block[2 + 4 * j + i]) | usize::from(bits >> (3 * i) & 7) << 8;
                *to = codebook[entry].to_le_bytes().map(u8::cast_signed);
            }
        }
    }
}
