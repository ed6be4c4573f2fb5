// Products of blocks with a scale for each half, in the lower two bytes of `halves`, times another.
fn half_scale(w: Block, upper: bool) -> i32 {
    return extractBits(w.halves, select(0u, 8u, upper), 8u);
}

// At most 2²⁴ in magnitude: exact in f32.
fn add(w: Block, x: Input, sum: f32) -> f32 {
    let dots = half_scale(w, false) * dot16(w.low, x.low) + half_scale(w, true) * dot16(w.high, x.high);
    return fma(f32(dots), w.scale * x.scale, sum);
}

fn widen(w: Block, q: vec4<f32>, upper: bool) -> vec4<f32> {
    return q * (w.scale * f32(half_scale(w, upper)));
}
