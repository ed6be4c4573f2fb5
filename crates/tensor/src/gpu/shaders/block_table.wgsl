// Looking up integers in TABLE, which has each of them four times in a word.
fn pick(bits: vec4<u32>, zero: vec4<u32>, one: vec4<u32>) -> vec4<u32> {
    return zero ^ (bits & (zero ^ one));
}

// All bits of the bytes with bit `i`.
fn mask(q: vec4<u32>, i: u32) -> vec4<u32> {
    return ((q >> vec4(i)) & vec4(0x01010101u)) * 255u;
}

// The integers of the lower four bits of each byte. An array that is indexed by values would be in slow memory.
fn looked_up(q: vec4<u32>) -> vec4<u32> {
    let a = mask(q, 0u);
    let b = mask(q, 1u);
    let c = mask(q, 2u);
    //: each i 4
    let four_$i = pick(b,
        pick(a, vec4(TABLE[4 * $i]), vec4(TABLE[4 * $i + 1])),
        pick(a, vec4(TABLE[4 * $i + 2]), vec4(TABLE[4 * $i + 3])));
    //: end
    return pick(mask(q, 3u), pick(c, four_0, four_1), pick(c, four_2, four_3));
}
