// The largest of each group of 16 values of a row, the first one where tied, as a pair (value, id). The values of group g are
// g / 256 * 4096 + g % 256 + 256 i. A group without values has the id 0xffffffff.
//
// The k largest values of a row are in the groups of the k largest pairs: before a value of any other group come k pairs.
struct Params {
    // Values of a row, and from row to row.
    count: u32,
    stride: u32,
    // Groups of a row.
    groups: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<u32>;
@group(0) @binding(2) var<storage, read_write> out: array<u32>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let row = group.y * params.stride;
    let first = group.x * 4096u + thread;
    var best = 0u;
    var id = 0xffffffffu;
    for (var i = first; i < min(first + 4096u, params.count); i += 256u) {
        let value = ordered(x[row + i]);
        if (value > best || id == 0xffffffffu) {
            best = value;
            id = i;
        }
    }
    let to = 2u * (group.y * params.groups + group.x * 256u + thread);
    out[to] = unordered(best);
    out[to + 1u] = id;
}
