// q2_k: 32 values of 0..4, with a scale and a minimum of four bits for each half, times those of eight blocks. The values' bits as the
// lower ones of q3_k. A byte of `scales` has scale (low) and minimum (high) of a half.
@group(0) @binding(next) var<storage, read> twos: array<vec2<u32>>;
@group(0) @binding(next) var<storage, read> scales: array<u32>;
@group(0) @binding(next) var<storage, read> eights: array<vec2<f32>>;

struct Block { low: vec4<u32>, high: vec4<u32>, eight: vec2<f32>, halves: u32 }

fn block(b: u32, lane: u32) -> Block {
    let two = twos[b * 16u + lane];
    let bits = vec4(0x03030303u);
    let shifts = vec4(0u, 2u, 4u, 6u);
    return Block(
        (vec4(two.x) >> shifts) & bits, (vec4(two.y) >> shifts) & bits,
        eights[(b >> 3u) * 16u + lane],
        scales[(b >> 1u) * 16u + lane] >> ((b & 1u) * 16u),
    );
}

fn scale_of(w: Block, upper: bool) -> i32 {
    return i32(extractBits(w.halves, select(0u, 8u, upper), 4u));
}

fn minimum_of(w: Block, upper: bool) -> i32 {
    return i32(extractBits(w.halves, select(4u, 12u, upper), 4u));
}

// Both sums are exact in f32.
fn add(w: Block, x: Input, sum: f32) -> f32 {
    let ones = vec4(0x01010101u);
    let low = dot16(ones, x.low);
    let dots = scale_of(w, false) * dot16(w.low, x.low) + scale_of(w, true) * dot16(w.high, x.high);
    let minima = minimum_of(w, false) * low + minimum_of(w, true) * (x.sum - low);
    return fma(f32(-minima), w.eight.y * x.scale, fma(f32(dots), w.eight.x * x.scale, sum));
}

fn widen(w: Block, q: vec4<f32>, upper: bool) -> vec4<f32> {
    return q * (w.eight.x * f32(scale_of(w, upper))) - vec4(w.eight.y * f32(minimum_of(w, upper)));
}
