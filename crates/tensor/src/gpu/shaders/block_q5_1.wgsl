// q5_1: 32 values of 0..32, a scale and a minimum, with bits as in q5_0.
@group(0) @binding(next) var<storage, read> quants: array<vec4<u32>>;
@group(0) @binding(next) var<storage, read> fifths: array<u32>;
@group(0) @binding(next) var<storage, read> scales: array<vec2<f32>>;

struct Block { low: vec4<u32>, high: vec4<u32>, scale: f32, minimum: f32 }

fn block(b: u32, lane: u32) -> Block {
    let at = b * 16u + lane;
    let q = quants[at];
    let fifth = vec4(fifths[at]);
    let mask = vec4(0x0f0f0f0fu);
    let bit = vec4(0x01010101u);
    let low = (q & mask) | (((fifth >> vec4(0u, 1u, 2u, 3u)) & bit) << vec4(4u));
    let high = ((q >> vec4(4u)) & mask) | (((fifth >> vec4(4u, 5u, 6u, 7u)) & bit) << vec4(4u));
    let both = scales[at];
    return Block(low, high, both.x, both.y);
}
