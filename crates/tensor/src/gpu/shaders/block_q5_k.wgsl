// q5_k: as q4_k, with a fifth bit of each value in `fifths`: bit 8 j + k of a word is that of the value 4 k + j.
@group(0) @binding(next) var<storage, read> quants: array<vec4<u32>>;
@group(0) @binding(next) var<storage, read> fifths: array<u32>;
@group(0) @binding(next) var<storage, read> scales: array<u32>;
@group(0) @binding(next) var<storage, read> eights: array<vec2<f32>>;

// Both products are exact: 11 bits by 6 bits.
struct Block { low: vec4<u32>, high: vec4<u32>, scale: f32, minimum: f32 }

fn block(b: u32, lane: u32) -> Block {
    let q = quants[b * 16u + lane];
    let fifth = vec4(fifths[b * 16u + lane]);
    let mask = vec4(0x0f0f0f0fu);
    let bit = vec4(0x01010101u);
    let both = scales[(b >> 1u) * 16u + lane] >> ((b & 1u) * 16u);
    let eight = eights[(b >> 3u) * 16u + lane];
    return Block(
        (q & mask) | (((fifth >> vec4(0u, 1u, 2u, 3u)) & bit) << vec4(4u)),
        ((q >> vec4(4u)) & mask) | (((fifth >> vec4(4u, 5u, 6u, 7u)) & bit) << vec4(4u)),
        eight.x * f32(both & 0xffu), eight.y * f32((both >> 8u) & 0xffu),
    );
}
