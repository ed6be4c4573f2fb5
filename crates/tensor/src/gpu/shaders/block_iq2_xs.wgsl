// Types with codebooks and two scales: 32 indices of a table, with a scale for each half, times that of eight blocks. Byte i holds the
// indices i (low) and 16 + i (high).
@group(0) @binding(next) var<storage, read> quants: array<vec4<u32>>;
@group(0) @binding(next) var<storage, read> scales: array<u32>;
@group(0) @binding(next) var<storage, read> eights: array<f32>;

struct Block { low: vec4<u32>, high: vec4<u32>, scale: f32, halves: i32 }

fn block(b: u32, lane: u32) -> Block {
    let q = quants[b * 16u + lane];
    let halves = i32(scales[(b >> 1u) * 16u + lane] >> ((b & 1u) * 16u));
    return Block(looked_up(q), looked_up(q >> vec4(4u)), eights[(b >> 3u) * 16u + lane], halves);
}
