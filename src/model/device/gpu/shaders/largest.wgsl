// The `keep` largest of each 1024 values of a row, descending, equal ones by ascending id. Values are numbers of x, whose id is their
// index, or with MERGE pairs (value, id) that an earlier pass kept. A workgroup sorts 1024 pairs by a bitonic network.
//
// Numbers are compared by their bits, as IEEE 754 orders them all: 0 comes before -0, and nothing is undefined.
override MERGE: u32;

const BLOCK = 1024u;

struct Params {
    // Values of a row, and values or pairs from row to row.
    count: u32,
    stride: u32,
    keep: u32,
    // Pairs from row to row of the result.
    out_stride: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<u32>;
@group(0) @binding(2) var<storage, read_write> out: array<u32>;

var<workgroup> values: array<u32, 1024>;
var<workgroup> ids: array<u32, 1024>;

// Bits of a number to a word that is larger for a larger number.
fn ordered(bits: u32) -> u32 {
    return bits ^ select(0x80000000u, 0xffffffffu, (bits >> 31u) == 1u);
}

// The inverse.
fn unordered(word: u32) -> u32 {
    return word ^ select(0xffffffffu, 0x80000000u, (word >> 31u) == 1u);
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let row = group.y;
    let start = group.x * BLOCK;
    for (var i = thread; i < BLOCK; i += 256u) {
        var value = 0u;
        var id = 0xffffffffu;
        if (start + i < params.count) {
            let at = row * params.stride + start + i;
            if (MERGE == 1u) {
                value = ordered(x[2u * at]);
                id = x[2u * at + 1u];
            } else {
                value = ordered(x[at]);
                id = start + i;
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
