// q6_k: 32 values of 0..64, less 32, with a signed scale for each half, times that of eight blocks. The lower four bits as in
// q4_k; the upper two in `tops`: bits 8 j + 2 k and up of word h are those of the value 16 h + 4 k + j.
@group(0) @binding(next) var<storage, read> quants: array<vec4<u32>>;
@group(0) @binding(next) var<storage, read> tops: array<vec2<u32>>;
@group(0) @binding(next) var<storage, read> scales: array<u32>;
@group(0) @binding(next) var<storage, read> eights: array<f32>;

struct Block { low: vec4<u32>, high: vec4<u32>, scale: f32, halves: i32 }

// Bytes less 32: no byte borrows from its neighbor while its highest bit is set.
fn less_32(q: vec4<u32>) -> vec4<u32> {
    return ((q | vec4(0x80808080u)) - vec4(0x20202020u)) ^ vec4(0x80808080u);
}

fn block(b: u32, lane: u32) -> Block {
    let q = quants[b * 16u + lane];
    let top = tops[b * 16u + lane];
    let mask = vec4(0x0f0f0f0fu);
    let bits = vec4(0x03030303u);
    let shifts = vec4(0u, 2u, 4u, 6u);
    return Block(
        less_32((q & mask) | (((vec4(top.x) >> shifts) & bits) << vec4(4u))),
        less_32(((q >> vec4(4u)) & mask) | (((vec4(top.y) >> shifts) & bits) << vec4(4u))),
        eights[(b >> 3u) * 16u + lane],
        i32(scales[(b >> 1u) * 16u + lane] >> ((b & 1u) * 16u)),
    );
}
