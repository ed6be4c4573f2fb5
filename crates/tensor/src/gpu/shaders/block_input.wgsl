// A block of 32 inputs: signed bytes, their scale, and their sum.
struct Input { low: vec4<u32>, high: vec4<u32>, scale: f32, sum: i32 }

fn dot16(w: vec4<u32>, x: vec4<u32>) -> i32 {
    return dot4I8Packed(w.x, x.x) + dot4I8Packed(w.y, x.y) + dot4I8Packed(w.z, x.z) + dot4I8Packed(w.w, x.w);
}
