// One row per workgroup: x += add, then out = (x - mean) / sqrt(variance + eps) * weight + bias. Without ADD, x is only read.
//
// Order of both sums: thread t takes the values t, t + 256, … ascending; then the threads are added in a tree of halves.
override ADD: u32;

struct Params {
    width: u32,
    eps: f32,
    rows: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> x: array<f32>;
@group(0) @binding(2) var<storage, read> add: array<f32>;
@group(0) @binding(3) var<storage, read> weight: array<f32>;
@group(0) @binding(4) var<storage, read> bias: array<f32>;
@group(0) @binding(5) var<storage, read_write> out: array<f32>;

var<workgroup> sums: array<f32, 256>;
var<workgroup> squares: array<f32, 256>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let row = group.y * 32768u + group.x;
    let at = select(0u, row * params.width, row < params.rows);
    let width = select(0u, params.width, row < params.rows);
    var sum = 0.0;
    for (var i = thread; i < width; i += 256u) {
        var value = x[at + i];
        if (ADD == 1u) {
            value += add[at + i];
            x[at + i] = value;
        }
        sum += value;
    }
    sums[thread] = sum;
    for (var half = 128u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if (thread < half) {
            sums[thread] += sums[thread + half];
        }
    }
    workgroupBarrier();
    let mean = sums[0] / f32(params.width);
    var square = 0.0;
    for (var i = thread; i < width; i += 256u) {
        let centred = x[at + i] - mean;
        square = fma(centred, centred, square);
    }
    squares[thread] = square;
    for (var half = 128u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if (thread < half) {
            squares[thread] += squares[thread + half];
        }
    }
    workgroupBarrier();
    let scale = 1.0 / sqrt(squares[0] / f32(params.width) + params.eps);
    for (var i = thread; i < width; i += 256u) {
        out[at + i] = fma((x[at + i] - mean) * scale, weight[i], bias[i]);
    }
}
