// x *= sigmoid(gates), value by value.
struct Params {
    width: u32,
    rows: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> gates: array<f32>;
@group(0) @binding(2) var<storage, read_write> x: array<f32>;

@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let row = id.z * 32768u + id.y;
    if (row >= params.rows || id.x >= params.width) {
        return;
    }
    let at = row * params.width + id.x;
    x[at] = x[at] / (1.0 + exp(-gates[at]));
}
