// The spans of one query (see attend.wgsl) put together: out = Σ values / Σ weights, both scaled to the largest score of all spans.
//
// Order of the sums: four lanes (span modulo 4), each ascending, then (0 + 1) + (2 + 3).
override D: u32;
override PROBE: u32;

const SPAN = 128u;
const LANES = 4u;
const HIDDEN = -1e30;

struct Params {
    // The first row of this dispatch.
    first_row: u32,
    heads: u32,
    spans: u32,
    // Width of a row of the result, in fours.
    stride: u32,
    // Queries of the whole pass.
    all: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> records: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> visible: array<u32>;
@group(0) @binding(3) var<storage, read_write> out: array<vec4<f32>>;
// For each query: the peak of its weights on measured slots, summed over layers. Then for each query of this layer the largest
// score, then for each one over the sum of weights.
@group(0) @binding(4) var<storage, read_write> probed: array<f32>;

var<workgroup> tops: array<f32, 4>;
var<workgroup> measured: array<f32, 4>;
var<workgroup> sums: array<f32, 4>;
var<workgroup> values: array<vec4<f32>, 256>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let head = group.x;
    let row = group.y;
    let wide = D / 4u;
    let lane = thread / wide;
    let piece = thread % wide;
    let query = row * params.heads + head;
    let size = wide + 1u;
    let first = query * params.spans * size;
    let spans = (visible[(params.first_row + row) * 4u + 3u] + SPAN - 1u) / SPAN;
    var top = HIDDEN;
    var peak = HIDDEN;
    if (lane < LANES) {
        for (var span = lane; span < spans; span += LANES) {
            let record = records[first + span * size];
            top = max(top, record.x);
            peak = max(peak, record.z);
        }
        if (piece == 0u) {
            tops[lane] = top;
            measured[lane] = peak;
        }
    }
    workgroupBarrier();
    top = max(max(tops[0], tops[1]), max(tops[2], tops[3]));
    var sum = 0.0;
    var value = vec4<f32>(0.0);
    if (lane < LANES) {
        for (var span = lane; span < spans; span += LANES) {
            let record = records[first + span * size];
            let factor = exp(record.x - top);
            sum = fma(record.y, factor, sum);
            value = fma(records[first + span * size + 1u + piece], vec4<f32>(factor), value);
        }
        if (piece == 0u) {
            sums[lane] = sum;
        }
        values[thread] = value;
    }
    workgroupBarrier();
    if (lane > 0u) {
        return;
    }
    let factor = 1.0 / ((sums[0] + sums[1]) + (sums[2] + sums[3]));
    value = (values[piece] + values[wide + piece]) + (values[2u * wide + piece] + values[3u * wide + piece]);
    out[(params.first_row + row) * params.stride + head * wide + piece] = value * factor;
    if (PROBE == 1u && piece == 0u) {
        peak = max(max(measured[0], measured[1]), max(measured[2], measured[3]));
        let at = params.first_row * params.heads + query;
        probed[at] += exp(peak - top) * factor;
        probed[params.all + at] = top;
        probed[2u * params.all + at] = factor;
    }
}
