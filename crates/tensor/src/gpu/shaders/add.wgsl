// x[r] += y[r], y[r % period] with PERIOD, or y[index[r]] with INDEXED; rows of `width` values.
override MODE: u32;

struct Params {
    width: u32,
    rows: u32,
    period: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> x: array<f32>;
@group(0) @binding(2) var<storage, read> y: array<f32>;
@group(0) @binding(3) var<storage, read> index: array<u32>;

@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let row = id.z * 32768u + id.y;
    let i = id.x;
    if (row >= params.rows || i >= params.width) {
        return;
    }
    var source = row;
    if (MODE == 1u) {
        source = row % params.period;
    } else if (MODE == 2u) {
        source = index[row];
    }
    x[row * params.width + i] += y[source * params.width + i];
}
