// iq4_nl and mxfp4: 32 indices of a table, and a scale. Byte i holds the indices i (low) and 16 + i (high).
@group(0) @binding(next) var<storage, read> quants: array<vec4<u32>>;
@group(0) @binding(next) var<storage, read> scales: array<f32>;

struct Block { low: vec4<u32>, high: vec4<u32>, scale: f32 }

fn block(b: u32, lane: u32) -> Block {
    let at = b * 16u + lane;
    let q = quants[at];
    return Block(looked_up(q), looked_up(q >> vec4(4u)), scales[at]);
}
