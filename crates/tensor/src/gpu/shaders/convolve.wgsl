// One of a sublayer's convolutions over the rows of a block (see convolution.rs), value by value: taps in ascending order.
struct Params {
    width: u32,
    rows: u32,
    taps: u32,
    group: u32,
    // The first shared tap of this side, and its first correction in a row of them.
    first: u32,
    own: u32,
    // Corrections of a row.
    stride: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> corrections: array<f32>;
@group(0) @binding(3) var<storage, read> shared_taps: array<f32>;
@group(0) @binding(4) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let row = id.z * 32768u + id.y;
    if (row >= params.rows || id.x >= params.width) {
        return;
    }
    let groups = params.width / params.group;
    let own = row * params.stride + params.own + id.x / params.group;
    var sum = 0.0;
    for (var tap = 0u; tap < min(params.taps, row + 1u); tap += 1u) {
        let kernel = shared_taps[params.first + tap * params.width + id.x] + corrections[own + tap * groups];
        sum += kernel * x[(row - tap) * params.width + id.x];
    }
    out[row * params.width + id.x] = sum;
}
