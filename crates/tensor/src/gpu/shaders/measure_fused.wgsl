// The rate of f32 multiplications: eight chains of fused multiply-adds of four values in each invocation.

struct Params {
    rounds: u32,
    factor: f32,
    unused: vec2<u32>,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> sums: array<f32>;

@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let start = vec4<f32>(f32(id.x), 1.0, 2.0, 3.0);
    let x = vec4<f32>(params.factor);
//: each k 8
    var sum$k = start + f32($k);
//: end
    for (var i = 0u; i < params.rounds; i++) {
//: each k 8
        sum$k = fma(sum$k, x, start);
//: end
    }
    let all = sum0 + sum1 + sum2 + sum3 + sum4 + sum5 + sum6 + sum7;
    sums[id.x] = all.x + all.y + all.z + all.w;
}
