//! Codebooks: groups of eight or four values, as ggml-quants.c of ggml (MIT) has them.
//!
//! The files in `codebooks` have two bytes for each entry, as the Python package `gguf` writes them down: eight numbers of two bits,
//! or four of four bits, the first one lowest. Signs are stored apart, one bit for each value.

/// Magnitudes of the types with two bits. 8, 25 and 43 are about 1, 3 and 5 times 8.5.
pub(super) const TWO: [i8; 4] = [8, 25, 43, 0];

/// What is kept of types with two bits: magnitudes with both signs.
pub(super) const TWO_SIGNED: [i8; 16] = with_signs(&TWO);

/// Numbers and their negatives.
pub(super) const fn with_signs<const N: usize>(magnitudes: &[i8; N]) -> [i8; 16] {
    let (mut all, mut i) = ([0; 16], 0);
    while i < N {
        (all[i], all[i + 8]) = (magnitudes[i], -magnitudes[i]);
        i += 1;
    }
    all
}

/// Entries of eight values, as the bytes of a word.
pub(super) const fn eights<const N: usize>(packed: &[u8], values: [i8; 4]) -> [u64; N] {
    let (mut entries, mut i) = ([0; N], 0);
    while i < N {
        let bits = u16::from_le_bytes([packed[2 * i], packed[2 * i + 1]]);
        let mut j = 0;
        while j < 8 {
            entries[i] |= (values[(bits >> (2 * j) & 3) as usize].cast_unsigned() as u64) << (8 * j);
            j += 1;
        }
        i += 1;
    }
    entries
}

/// Entries of four values, as the bytes of a word.
pub(super) const fn fours<const N: usize>(packed: &[u8], values: [i8; 8]) -> [u32; N] {
    let (mut entries, mut i) = ([0; N], 0);
    while i < N {
        let bits = u16::from_le_bytes([packed[2 * i], packed[2 * i + 1]]);
        let mut j = 0;
        while j < 4 {
            entries[i] |= (values[(bits >> (4 * j) & 7) as usize].cast_unsigned() as u32) << (8 * j);
            j += 1;
        }
        i += 1;
    }
    entries
}

/// For each byte of signs the bytes that are negative, as 255.
static MASKS: [u64; 256] = {
    let (mut masks, mut signs) = ([0; 256], 0);
    while signs < 256 {
        let mut j = 0;
        while j < 8 {
            if signs >> j & 1 == 1 {
                masks[signs] |= 0xff << (8 * j);
            }
            j += 1;
        }
        signs += 1;
    }
    masks
};

/// Eight values: the bytes of `entry`, which are greater than 0, those with a bit in `signs` negated.
#[inline]
pub(super) fn signed(entry: u64, signs: u8) -> [i8; 8] {
    let mask = MASKS[usize::from(signs)];
    // Two's complement; no byte carries, as none is 0.
    let bytes = (entry ^ mask) + (mask & 0x0101_0101_0101_0101);
    bytes.to_le_bytes().map(u8::cast_signed)
}

/// Eight signs of which seven are stored: they have an even number of ones.
#[inline]
pub(super) fn even(seven: u8) -> u8 {
    // A table, as counting is slow where the compiler does it for several at once.
    EVEN[usize::from(seven & 127)]
}

static EVEN: [u8; 128] = {
    let (mut all, mut seven) = ([0; 128], 0u8);
    while seven < 128 {
        all[seven as usize] = seven | ((seven.count_ones() & 1) << 7) as u8;
        seven += 1;
    }
    all
};

/// Two entries of four values as one of eight.
#[inline]
pub(super) fn pair(first: u32, second: u32) -> u64 {
    u64::from(first) | u64::from(second) << 32
}

/// Words of a block, from a byte on.
#[inline]
pub(super) fn u32_at(block: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]])
}

#[inline]
pub(super) fn u16_at(block: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([block[at], block[at + 1]])
}

/// 2 n + 1 for four bits n.
#[inline]
pub(super) fn odd(four: u8) -> i8 {
    (2 * (four & 15) + 1).cast_signed()
}
