// q3_k: 32 values of 0..8, less 4, with a signed scale for each half, times that of eight blocks. The lower two bits in `twos`: bits
// 8 j + 2 k and up of word h are those of the value 16 h + 4 k + j; bit 8 j + k of a word of `thirds` is the third bit of the value
// 4 k + j.
@group(0) @binding(next) var<storage, read> twos: array<vec2<u32>>;
@group(0) @binding(next) var<storage, read> thirds: array<u32>;
@group(0) @binding(next) var<storage, read> scales: array<u32>;
@group(0) @binding(next) var<storage, read> eights: array<f32>;

struct Block { low: vec4<u32>, high: vec4<u32>, scale: f32, halves: i32 }

// Bytes less 4: no byte borrows from its neighbor while its highest bit is set.
fn less_4(q: vec4<u32>) -> vec4<u32> {
    return ((q | vec4(0x80808080u)) - vec4(0x04040404u)) ^ vec4(0x80808080u);
}

fn block(b: u32, lane: u32) -> Block {
    let two = twos[b * 16u + lane];
    let third = vec4(thirds[b * 16u + lane]);
    let bits = vec4(0x03030303u);
    let bit = vec4(0x01010101u);
    let shifts = vec4(0u, 2u, 4u, 6u);
    return Block(
        less_4(((vec4(two.x) >> shifts) & bits) | (((third >> vec4(0u, 1u, 2u, 3u)) & bit) << vec4(2u))),
        less_4(((vec4(two.y) >> shifts) & bits) | (((third >> vec4(4u, 5u, 6u, 7u)) & bit) << vec4(2u))),
        eights[(b >> 3u) * 16u + lane],
        i32(scales[(b >> 1u) * 16u + lane] >> ((b & 1u) * 16u)),
    );
}
