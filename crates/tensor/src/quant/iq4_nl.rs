use super::{
    BlockType, Unpacked,
    quantize::{self, Quantizer},
    unpack_nibbles, unpack_scale,
};

/// The integers, denser near zero, as ggml has them.
pub(crate) const IQ4: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// A scale, and four bits of each value that stand for an integer of a table.
pub(crate) struct Iq4Nl;

impl BlockType for Iq4Nl {
    const NAME: &'static str = "iq4_nl";
    const NUMBER: u32 = 20;
    const VALUES: usize = 32;
    const BYTES: usize = 18;
    const TABLE: Option<[i8; 16]> = Some(IQ4);
    const QUANTIZER: Option<Quantizer> = Some(quantize::iq4_nl);

    fn unpack(block: &[u8], to: &mut Unpacked) {
        unpack_scale::<Self>(block, to);
        unpack_nibbles::<Self>(block, to);
    }
}
