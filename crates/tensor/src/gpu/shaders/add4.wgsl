fn add4(w: vec4<f32>, x: vec4<f32>, sum: f32) -> f32 {
    return fma(w.w, x.w, fma(w.z, x.z, fma(w.y, x.y, fma(w.x, x.x, sum))));
}
