// q4_1: 32 values of 0..16, a scale and a minimum. Byte i holds the values i (low) and 16 + i (high).
@group(0) @binding(next) var<storage, read> quants: array<vec4<u32>>;
@group(0) @binding(next) var<storage, read> scales: array<vec2<f32>>;

struct Block { low: vec4<u32>, high: vec4<u32>, scale: f32, minimum: f32 }

fn block(b: u32, lane: u32) -> Block {
    let at = b * 16u + lane;
    let q = quants[at];
    let both = scales[at];
    let mask = vec4(0x0f0f0f0fu);
    return Block(q & mask, (q >> vec4(4u)) & mask, both.x, both.y);
}
