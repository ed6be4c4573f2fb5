// Facts about a block of 4096 logits of a row: the three largest, the id of the first largest, Σ exp(x - largest), and
// Σ exp(x - largest) (x - largest), as eight words.
//
// Order of the sums: thread t takes the values t, t + 256, … of the block ascending; then a tree of halves.
const BLOCK = 4096u;
const LOWEST = -3.4028234e38;

struct Params {
    // Logits that count, and values from row to row.
    vocab: u32,
    stride: u32,
    blocks: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> logits: array<f32>;
@group(0) @binding(2) var<storage, read_write> facts: array<u32>;

var<workgroup> tops: array<vec3<f32>, 256>;
var<workgroup> ids: array<u32, 256>;
var<workgroup> sums: array<vec2<f32>, 256>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let row = group.y;
    let start = group.x * BLOCK;
    let end = min(start + BLOCK, params.vocab);
    let at = row * params.stride;
    var top = vec3<f32>(LOWEST);
    var id = 0xffffffffu;
    for (var i = start + thread; i < end; i += 256u) {
        let value = logits[at + i];
        if (value > top.x || id == 0xffffffffu) {
            id = i;
        }
        top = insert(top, value);
    }
    tops[thread] = top;
    ids[thread] = id;
    for (var half = 128u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if (thread < half) {
            let ours = tops[thread];
            let theirs = tops[thread + half];
            let other = ids[thread + half];
            if (theirs.x > ours.x || (theirs.x == ours.x && other < ids[thread])) {
                ids[thread] = other;
            }
            tops[thread] = insert(insert(insert(ours, theirs.x), theirs.y), theirs.z);
        }
    }
    workgroupBarrier();
    let largest = tops[0].x;
    var sum = vec2<f32>(0.0);
    for (var i = start + thread; i < end; i += 256u) {
        let below = max(logits[at + i] - largest, -200.0);
        let weight = exp(below);
        sum = vec2<f32>(sum.x + weight, fma(weight, below, sum.y));
    }
    sums[thread] = sum;
    for (var half = 128u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if (thread < half) {
            sums[thread] += sums[thread + half];
        }
    }
    workgroupBarrier();
    if (thread == 0u) {
        let to = (row * params.blocks + group.x) * 8u;
        facts[to] = bitcast<u32>(tops[0].x);
        facts[to + 1u] = bitcast<u32>(tops[0].y);
        facts[to + 2u] = bitcast<u32>(tops[0].z);
        facts[to + 3u] = ids[0];
        facts[to + 4u] = bitcast<u32>(sums[0].x);
        facts[to + 5u] = bitcast<u32>(sums[0].y);
    }
}
