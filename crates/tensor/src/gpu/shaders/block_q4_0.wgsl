// q4_0: 32 values of 0..16, less 8, and a scale. Byte i holds the values i (low) and 16 + i (high).
@group(0) @binding(next) var<storage, read> quants: array<vec4<u32>>;
@group(0) @binding(next) var<storage, read> scales: array<f32>;

struct Block { low: vec4<u32>, high: vec4<u32>, scale: f32 }

// Bytes less 8: no byte borrows from its neighbor while its highest bit is set.
fn less_8(q: vec4<u32>) -> vec4<u32> {
    return ((q | vec4(0x80808080u)) - vec4(0x08080808u)) ^ vec4(0x80808080u);
}

fn block(b: u32, lane: u32) -> Block {
    let at = b * 16u + lane;
    let q = quants[at];
    let mask = vec4(0x0f0f0f0fu);
    return Block(less_8(q & mask), less_8((q >> vec4(4u)) & mask), scales[at]);
}
