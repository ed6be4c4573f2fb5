// The facts of a row from those of its blocks (see facts.wgsl), in the same form.
//
// Order of the sums: thread t takes the blocks t, t + 64, … ascending; then a tree of halves.
const LOWEST = -3.4028234e38;

struct Params {
    blocks: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> parts: array<u32>;
@group(0) @binding(2) var<storage, read_write> facts: array<u32>;

var<workgroup> tops: array<vec3<f32>, 64>;
var<workgroup> ids: array<u32, 64>;
var<workgroup> sums: array<vec2<f32>, 64>;

fn part(at: u32, i: u32) -> f32 {
    return bitcast<f32>(parts[at + i]);
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let row = group.x;
    var top = vec3<f32>(LOWEST);
    var id = 0xffffffffu;
    for (var block = thread; block < params.blocks; block += 64u) {
        let at = (row * params.blocks + block) * 8u;
        let value = part(at, 0u);
        if (value > top.x || id == 0xffffffffu) {
            id = parts[at + 3u];
        }
        top = insert(insert(insert(top, value), part(at, 1u)), part(at, 2u));
    }
    tops[thread] = top;
    ids[thread] = id;
    for (var half = 32u; half > 0u; half /= 2u) {
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
    for (var block = thread; block < params.blocks; block += 64u) {
        let at = (row * params.blocks + block) * 8u;
        let below = max(part(at, 0u) - largest, -200.0);
        let factor = exp(below);
        let weight = part(at, 4u);
        sum = vec2<f32>(fma(weight, factor, sum.x), fma(fma(weight, below, part(at, 5u)), factor, sum.y));
    }
    sums[thread] = sum;
    for (var half = 32u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if (thread < half) {
            sums[thread] += sums[thread + half];
        }
    }
    workgroupBarrier();
    if (thread == 0u) {
        let to = row * 8u;
        facts[to] = bitcast<u32>(tops[0].x);
        facts[to + 1u] = bitcast<u32>(tops[0].y);
        facts[to + 2u] = bitcast<u32>(tops[0].z);
        facts[to + 3u] = ids[0];
        facts[to + 4u] = bitcast<u32>(sums[0].x);
        facts[to + 5u] = bitcast<u32>(sums[0].y);
    }
}
