// Products of blocks with a minimum (q4_k, q5_k, q4_1, q5_1): Σ (w s - m) x = s Σ w x - m Σ x.
fn add(w: Block, x: Input, sum: f32) -> f32 {
    let scaled = fma(f32(dot16(w.low, x.low) + dot16(w.high, x.high)), w.scale * x.scale, sum);
    return fma(f32(-x.sum), w.minimum * x.scale, scaled);
}

fn widen(w: Block, q: vec4<f32>, upper: bool) -> vec4<f32> {
    return q * w.scale - vec4(w.minimum);
}
