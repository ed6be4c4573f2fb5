// Inputs in blocks of 32: signed bytes, with scale = max |x| / 127 and the sum of the bytes. Eight invocations to a block, four
// values each; a workgroup has 32 blocks of a row. Blocks after the end of the row are zeros.
struct Params {
    // Values of a row, a multiple of 32.
    width: u32,
    // Blocks of a row as stored.
    blocks: u32,
    // The first row.
    row: u32,
    padding: u32,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(next) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(next) var<storage, read_write> quants: array<u32>;
@group(0) @binding(next) var<storage, read_write> scales: array<vec2<u32>>;

var<workgroup> peaks: array<f32, 256>;
var<workgroup> sums: array<i32, 256>;

// GATED: silu(gate) times value, of rows of `width` gates and as many values.
fn values(row: u32, at: u32) -> vec4<f32> {
    //: if GATED
    let start = (p.row + row) * p.width / 2u + at;
    let gate = x[start];
    return gate / (vec4(1.0) + exp(min(-gate, vec4(80.0)))) * x[start + p.width / 4u];
    //: else
    return x[(p.row + row) * p.width / 4u + at];
    //: end
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) index: u32) {
    let row = group.y;
    let word = group.x * 256u + index;
    var v = vec4(0.0);
    if word * 4u < p.width {
        v = values(row, word);
    }
    let four = abs(v);
    peaks[index] = max(max(four.x, four.y), max(four.z, four.w));
    workgroupBarrier();
    let first = index & ~7u;
    var peak = 0.0;
    for (var i = 0u; i < 8u; i += 1u) {
        peak = max(peak, peaks[first + i]);
    }
    var inverse = 0.0;
    if peak > 0.0 {
        inverse = 127.0 / peak;
    }
    let q = vec4<i32>(clamp(round(v * inverse), vec4(-127.0), vec4(127.0)));
    sums[index] = q.x + q.y + q.z + q.w;
    workgroupBarrier();
    let b = word / 8u;
    if b < p.blocks {
        quants[row * p.blocks * 8u + word] = pack4xI8(q);
        if index == first {
            var sum = 0;
            for (var i = 0u; i < 8u; i += 1u) {
                sum += sums[first + i];
            }
            // A product, as divisions are not exact everywhere.
            scales[row * p.blocks + b] = vec2(bitcast<u32>(peak * 0.007874016), bitcast<u32>(sum));
        }
    }
}
