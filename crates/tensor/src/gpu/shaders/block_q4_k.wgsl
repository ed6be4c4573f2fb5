// q4_k: 32 values of 0..16, a scale and a minimum of 6 bits each, times those of eight blocks. Byte i holds the values i (low)
// and 16 + i (high). A word of `scales` has scale and minimum of two blocks.
@group(0) @binding(next) var<storage, read> quants: array<vec4<u32>>;
@group(0) @binding(next) var<storage, read> scales: array<u32>;
@group(0) @binding(next) var<storage, read> eights: array<vec2<f32>>;

// Both products are exact: 11 bits by 6 bits.
struct Block { low: vec4<u32>, high: vec4<u32>, scale: f32, minimum: f32 }

fn block(b: u32, lane: u32) -> Block {
    let q = quants[b * 16u + lane];
    let mask = vec4(0x0f0f0f0fu);
    let both = scales[(b >> 1u) * 16u + lane] >> ((b & 1u) * 16u);
    let eight = eights[(b >> 3u) * 16u + lane];
    return Block(
        q & mask, (q >> vec4(4u)) & mask,
        eight.x * f32(both & 0xffu), eight.y * f32((both >> 8u) & 0xffu),
    );
}
