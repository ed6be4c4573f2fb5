// Products of blocks with one scale.
fn add(w: Block, x: Input, sum: f32) -> f32 {
    return fma(f32(dot16(w.low, x.low) + dot16(w.high, x.high)), w.scale * x.scale, sum);
}

fn widen(w: Block, q: vec4<f32>, upper: bool) -> vec4<f32> {
    return q * w.scale;
}
