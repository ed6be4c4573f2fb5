// The attention weights of all rows on measured slots, summed over the rows and the queries of each key head of one layer:
// sums[at + head * count + i] for the measured slot i.
//
// Order of the sums: queries (row by row, each with the heads of the group) ascending.
override D: u32;

const TILE = 8u;

struct Params {
    rows: u32,
    heads: u32,
    group: u32,
    // Width of a row of qkv, in fours.
    stride: u32,
    capacity: u32,
    // Measured slots.
    count: u32,
    at: u32,
    scale: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> qkv: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read> visible: array<u32>;
@group(0) @binding(5) var<storage, read> slots: array<u32>;
// See combine.wgsl.
@group(0) @binding(6) var<storage, read> probed: array<f32>;
@group(0) @binding(7) var<storage, read_write> sums: array<f32>;

var<workgroup> queries: array<vec4<f32>, 512>;

// True if the row sees the slot.
fn sees(row: u32, slot: u32) -> bool {
    let start = visible[row * 4u];
    let prefix = visible[row * 4u + 1u];
    let count = visible[row * 4u + 3u];
    // Slots before the row's first wrap around to large numbers.
    if (slot - start < min(prefix, count)) {
        return true;
    }
    let path = visible[row * 4u + 2u];
    for (var i = prefix; i < count; i++) {
        if (visible[path + i - prefix] == slot) {
            return true;
        }
    }
    return false;
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let i = group.x * 64u + thread;
    let head = group.y;
    let wide = D / 4u;
    let all = params.rows * params.group;
    let slot = slots[min(i, params.count - 1u)];
    let place = key_place(head, slot);
    var sum = 0.0;
    for (var first = 0u; first < all; first += TILE) {
        workgroupBarrier();
        for (var k = thread; k < TILE * wide; k += 64u) {
            let n = first + k / wide;
            var query = vec4<f32>(0.0);
            if (n < all) {
                let own = head * params.group + n % params.group;
                query = qkv[n / params.group * params.stride + own * wide + k % wide] * params.scale;
            }
            queries[k] = query;
        }
        workgroupBarrier();
        for (var n = first; n < min(first + TILE, all); n++) {
            let row = n / params.group;
            if (sees(row, slot)) {
                var a = vec4<f32>(0.0);
                let q = (n - first) * wide;
                for (var c = 0u; c < D / 8u; c++) {
                    let key = key8(place, c);
                    a = fma(key.high, queries[q + 2u * c + 1u], fma(key.low, queries[q + 2u * c], a));
                }
                let at = params.rows * params.heads + row * params.heads + head * params.group + n % params.group;
                let score = (a.x + a.y) + (a.z + a.w);
                sum = fma(exp(score - probed[at]), probed[params.rows * params.heads + at], sum);
            }
        }
    }
    if (i < params.count) {
        sums[params.at + head * params.count + i] = sum;
    }
}
