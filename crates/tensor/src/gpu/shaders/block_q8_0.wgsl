// q8_0: 32 signed bytes and a scale.
@group(0) @binding(next) var<storage, read> quants: array<vec4<u32>>;
@group(0) @binding(next) var<storage, read> scales: array<f32>;

struct Block { low: vec4<u32>, high: vec4<u32>, scale: f32 }

fn block(b: u32, lane: u32) -> Block {
    let at = b * 32u + lane;
    return Block(quants[at], quants[at + 16u], scales[b * 16u + lane]);
}
