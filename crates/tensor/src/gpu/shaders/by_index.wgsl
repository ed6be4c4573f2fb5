// out[r] = x[index[r]]: rows of `width` values to rows of `wide`, whose rest is zero.

struct Params {
    width: u32,
    wide: u32,
    rows: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> index: array<u32>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let row = id.z * 32768u + id.y;
    let i = id.x;
    if (row >= params.rows || i >= params.wide) {
        return;
    }
    var value = 0.0;
    if (i < params.width) {
        value = x[index[row] * params.width + i];
    }
    out[row * params.wide + i] = value;
}
