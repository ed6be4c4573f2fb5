// out[r] = weight[4 r] * x[index[4 r]] + … + weight[4 r + 3] * x[index[4 r + 3]], in this order; rows of `width` values. Indices and
// weights are given for `period` rows; row r of the result has those of r % period, and its indices count from row
// r / period * step of x. Rows of the result have `wide` values, of which those from `column` on are written.
struct Params {
    width: u32,
    rows: u32,
    period: u32,
    step: u32,
    wide: u32,
    column: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> index: array<u32>;
@group(0) @binding(3) var<storage, read> weight: array<f32>;
@group(0) @binding(4) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let row = id.z * 32768u + id.y;
    let i = id.x;
    if (row >= params.rows || i >= params.width) {
        return;
    }
    let tap = row % params.period * 4u;
    let first = row / params.period * params.step;
    var sum = 0.0;
    for (var t = 0u; t < 4u; t++) {
        sum = fma(weight[tap + t], x[(first + index[tap + t]) * params.width + i], sum);
    }
    out[row * params.wide + params.column + i] = sum;
}
