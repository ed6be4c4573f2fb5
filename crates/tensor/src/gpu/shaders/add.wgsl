// x[r] += y[r % period]; rows of `width` values.

struct Params {
    width: u32,
    rows: u32,
    period: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> x: array<f32>;
@group(0) @binding(2) var<storage, read> y: array<f32>;

@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let row = id.z * 32768u + id.y;
    let i = id.x;
    if (row >= params.rows || i >= params.width) {
        return;
    }
    x[row * params.width + i] += y[row % params.period * params.width + i];
}
