// out[r * stride + at + t] = x[r] · tokens[t] of four rows r and four tokens t; rows and tokens of `width` values.
//
// Order of the sum: thread t takes the values t, t + 64, … ascending; then a tree of halves.
struct Params {
    width: u32,
    rows: u32,
    tokens: u32,
    stride: u32,
    at: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> tokens: array<f32>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;

// For each thread and row, the sums of four tokens.
var<workgroup> sums: array<vec4<f32>, 256>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let first = (group.y * 32768u + group.x) * 4u;
    let row = group.z * 4u;
    // What is beyond the end is computed of the last ones, and not stored.
    let last = vec4<u32>(params.tokens - 1u);
    let token = min(vec4<u32>(first, first + 1u, first + 2u, first + 3u), last) * params.width;
    let rows = min(vec4<u32>(row, row + 1u, row + 2u, row + 3u), vec4<u32>(params.rows - 1u)) * params.width;
    var s0 = vec4<f32>(0.0);
    var s1 = s0;
    var s2 = s0;
    var s3 = s0;
    for (var i = thread; i < params.width; i += 64u) {
        let t = vec4<f32>(tokens[token.x + i], tokens[token.y + i], tokens[token.z + i], tokens[token.w + i]);
        s0 = fma(vec4<f32>(x[rows.x + i]), t, s0);
        s1 = fma(vec4<f32>(x[rows.y + i]), t, s1);
        s2 = fma(vec4<f32>(x[rows.z + i]), t, s2);
        s3 = fma(vec4<f32>(x[rows.w + i]), t, s3);
    }
    sums[thread] = s0;
    sums[64u + thread] = s1;
    sums[128u + thread] = s2;
    sums[192u + thread] = s3;
    for (var half = 32u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if (thread < half) {
            for (var r = 0u; r < 256u; r += 64u) {
                sums[r + thread] += sums[r + thread + half];
            }
        }
    }
    workgroupBarrier();
    let r = thread / 4u;
    let t = thread % 4u;
    if (thread < 16u && row + r < params.rows && first + t < params.tokens) {
        out[(row + r) * params.stride + params.at + first + t] = sums[r * 64u][t];
    }
}
