// Numbers are compared by their bits, as IEEE 754 orders them all: 0 comes after -0, and nothing is undefined.

// Bits of a number to a word that is larger for a larger number.
fn ordered(bits: u32) -> u32 {
    return bits ^ select(0x80000000u, 0xffffffffu, (bits >> 31u) == 1u);
}

// The inverse.
fn unordered(word: u32) -> u32 {
    return word ^ select(0xffffffffu, 0x80000000u, (word >> 31u) == 1u);
}
