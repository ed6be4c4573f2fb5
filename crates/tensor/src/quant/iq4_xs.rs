use super::{BlockType, IQ4, Unpacked, unpack_scale};

/// A scale, eight scales of 6 bits less 32 in six bytes, and 128 bytes of which byte `i` of each 16 has the values `i` (low) and
/// `16 + i` (high) of 32, which stand for integers of iq4_nl's table.
pub(crate) struct Iq4Xs;

impl BlockType for Iq4Xs {
    const NAME: &'static str = "iq4_xs";
    const NUMBER: u32 = 23;
    const VALUES: usize = 256;
    const BYTES: usize = 136;
    const TABLE: Option<[i8; 16]> = Some(IQ4);

    fn unpack(block: &[u8], to: &mut Unpacked) {
        unpack_scale::<Self>(block, to);
        let high = u16::from_le_bytes([block[2], block[3]]);
        for (j, scale) in to.scales[..8].iter_mut().enumerate() {
            let (four, two) = (block[4 + j / 2] >> (j % 2 * 4) & 15, (high >> (2 * j) & 3) as u8);
            *scale = (four | two << 4).cast_signed() - 32;
        }
        for (bytes, to) in block[8..].chunks_exact(16).zip(to.quants.chunks_exact_mut(32)) {
            for (i, byte) in bytes.iter().enumerate() {
                to[i] = IQ4[usize::from(byte & 15)];
                to[i + 16] = IQ4[usize::from(byte >> 4)];
            }
        }
    }
}
