// The rate of 8-bit multiplications: 16 chains of dot products of four bytes in each invocation.

struct Params {
    rounds: u32,
    factor: u32,
    unused: vec2<u32>,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> sums: array<u32>;

@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
//: each k 16
    var sum$k = i32(id.x + $ku);
//: end
    for (var i = 0u; i < params.rounds; i++) {
//: each k 16
        sum$k += dot4I8Packed(bitcast<u32>(sum$k), params.factor);
//: end
    }
    var all = 0;
//: each k 16
    all += sum$k;
//: end
    sums[id.x] = bitcast<u32>(all);
}
