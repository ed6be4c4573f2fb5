// q8_0: 32 signed bytes and a scale.
@group(0) @binding(next) var<storage, read> quants: array<vec4<u32>>;
@group(0) @binding(next) var<storage, read> scales: array<f32>;

struct Block { low: vec4<u32>, high: vec4<u32>, scale: f32 }

fn block(b: u32, lane: u32) -> Block {
    let at = b * 32u + lane;
    return Block(quants[at], quants[at + 16u], scales[b * 16u + lane]);
}

fn add(w: Block, x: Input, sum: f32) -> f32 {
    return fma(f32(dot16(w.low, x.low) + dot16(w.high, x.high)), w.scale * x.scale, sum);
}

fn widen(w: Block, q: vec4<f32>, upper: bool) -> vec4<f32> {
    return q * w.scale;
}
