// out[r][i] = x[r][columns[i]]: chosen columns of rows.
struct Params {
    // Values of a row of x, of a row of out, and rows.
    wide: u32,
    width: u32,
    rows: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> columns: array<u32>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let row = id.z * 32768u + id.y;
    if (row >= params.rows || id.x >= params.width) {
        return;
    }
    out[row * params.width + id.x] = x[row * params.wide + columns[id.x]];
}
