// The `keep` largest of each 1024 values of a row, descending, equal ones by ascending id, as pairs (value, id). A workgroup sorts
// 1024 pairs by a bitonic network.
//
// FROM 0: the values are numbers of x, whose id is their index. FROM 1: they are pairs in `pairs`. FROM 2: they are the numbers of x
// in the groups (see group_tops.wgsl) of the pairs in `pairs`.
override FROM: u32;

const BLOCK = 1024u;
const GROUP = 16u;

struct Params {
    // Values of a row; numbers of x that count; numbers and pairs from row to row.
    count: u32,
    width: u32,
    stride: u32,
    pairs_stride: u32,
    keep: u32,
    // Pairs from row to row of the result.
    out_stride: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<u32>;
@group(0) @binding(2) var<storage, read> pairs: array<u32>;
@group(0) @binding(3) var<storage, read_write> out: array<u32>;

var<workgroup> values: array<u32, 1024>;
var<workgroup> ids: array<u32, 1024>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let row = group.y;
    let start = group.x * BLOCK;
    for (var i = thread; i < BLOCK; i += 256u) {
        var value = 0u;
        var id = 0xffffffffu;
        if (start + i < params.count) {
            if (FROM == 0u) {
                id = start + i;
                value = ordered(x[row * params.stride + id]);
            } else if (FROM == 1u) {
                let at = 2u * (row * params.pairs_stride + start + i);
                id = pairs[at + 1u];
                value = select(ordered(pairs[at]), 0u, id == 0xffffffffu);
            } else {
                let best = pairs[2u * (row * params.pairs_stride + (start + i) / GROUP) + 1u];
                let other = best / 4096u * 4096u + best % 256u + (start + i) % GROUP * 256u;
                if (best != 0xffffffffu && other < params.width) {
                    id = other;
                    value = ordered(x[row * params.stride + other]);
                }
            }
        }
        values[i] = value;
        ids[i] = id;
    }
    for (var size = 2u; size <= BLOCK; size *= 2u) {
        for (var step = size / 2u; step > 0u; step /= 2u) {
            workgroupBarrier();
            for (var pair = thread; pair < BLOCK / 2u; pair += 256u) {
                let a = pair / step * step * 2u + pair % step;
                let b = a + step;
                let later = values[a] < values[b] || (values[a] == values[b] && ids[a] > ids[b]);
                if (later == ((a & size) == 0u)) {
                    let value = values[a];
                    let id = ids[a];
                    values[a] = values[b];
                    ids[a] = ids[b];
                    values[b] = value;
                    ids[b] = id;
                }
            }
        }
    }
    workgroupBarrier();
    for (var i = thread; i < params.keep; i += 256u) {
        let to = 2u * (row * params.out_stride + group.x * params.keep + i);
        out[to] = unordered(values[i]);
        out[to + 1u] = ids[i];
    }
}
