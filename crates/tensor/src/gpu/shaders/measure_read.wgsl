// The rate at which memory is read: each invocation reads every `stride`-th vector.

struct Params {
    count: u32,
    stride: u32,
    unused: vec2<u32>,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> values: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read_write> sums: array<u32>;

@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    var sum = vec4<u32>();
    for (var i = id.x; i < params.count; i += params.stride) {
        sum ^= values[i];
    }
    sums[id.x] = sum.x ^ sum.y ^ sum.z ^ sum.w;
}
