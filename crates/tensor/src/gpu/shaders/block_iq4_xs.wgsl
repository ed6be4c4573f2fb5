// iq4_xs, and types with codebooks: 32 indices of a table, and a signed scale, times that of eight blocks. Byte i holds the indices i
// (low) and 16 + i (high). A word of `scales` has those of four blocks.
@group(0) @binding(next) var<storage, read> quants: array<vec4<u32>>;
@group(0) @binding(next) var<storage, read> scales: array<u32>;
@group(0) @binding(next) var<storage, read> eights: array<f32>;

// The product of the scales is exact: 11 bits by 6 bits.
struct Block { low: vec4<u32>, high: vec4<u32>, scale: f32 }

fn block(b: u32, lane: u32) -> Block {
    let q = quants[b * 16u + lane];
    let scale = extractBits(bitcast<i32>(scales[(b >> 2u) * 16u + lane]), (b & 3u) * 8u, 8u);
    return Block(looked_up(q), looked_up(q >> vec4(4u)), f32(scale) * eights[(b >> 3u) * 16u + lane]);
}
