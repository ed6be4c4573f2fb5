// One row per workgroup: out = x / |x|; zeros stay zeros. Rows of `width` values.
//
// Order of the sum: thread t takes the values t, t + 256, … ascending; then a tree of halves.
struct Params {
    width: u32,
    rows: u32,
    // Row of x of the first workgroup.
    first: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;

var<workgroup> sums: array<f32, 256>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let row = group.y * 32768u + group.x;
    let width = select(0u, params.width, row < params.rows);
    let at = (params.first + row) * params.width;
    var sum = 0.0;
    for (var i = thread; i < width; i += 256u) {
        sum = fma(x[at + i], x[at + i], sum);
    }
    sums[thread] = sum;
    for (var half = 128u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if (thread < half) {
            sums[thread] += sums[thread + half];
        }
    }
    workgroupBarrier();
    var scale = 0.0;
    if (sums[0] > 0.0) {
        scale = 1.0 / sqrt(sums[0]);
    }
    for (var i = thread; i < width; i += 256u) {
        out[row * params.width + i] = x[at + i] * scale;
    }
}
