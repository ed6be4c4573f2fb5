// q5_0: 32 values of 0..32, less 16, and a scale. The lower four bits as in q4_0; bit 8 j + k of a word of `fifths` is the fifth bit
// of the value 4 k + j.
@group(0) @binding(next) var<storage, read> quants: array<vec4<u32>>;
@group(0) @binding(next) var<storage, read> fifths: array<u32>;
@group(0) @binding(next) var<storage, read> scales: array<f32>;

struct Block { low: vec4<u32>, high: vec4<u32>, scale: f32 }

// Bytes less 16: no byte borrows from its neighbor while its highest bit is set.
fn less_16(q: vec4<u32>) -> vec4<u32> {
    return ((q | vec4(0x80808080u)) - vec4(0x10101010u)) ^ vec4(0x80808080u);
}

fn block(b: u32, lane: u32) -> Block {
    let at = b * 16u + lane;
    let q = quants[at];
    let fifth = vec4(fifths[at]);
    let mask = vec4(0x0f0f0f0fu);
    let bit = vec4(0x01010101u);
    let low = (q & mask) | (((fifth >> vec4(0u, 1u, 2u, 3u)) & bit) << vec4(4u));
    let high = ((q >> vec4(4u)) & mask) | (((fifth >> vec4(4u, 5u, 6u, 7u)) & bit) << vec4(4u));
    return Block(less_16(low), less_16(high), scales[at]);
}
