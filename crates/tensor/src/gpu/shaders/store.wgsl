// Rotate the queries and keys of new rows and write keys and values to the cache.
//
// A row of qkv holds `heads` queries, `kv_heads` keys and as many values of D numbers. Row r is rotated by angles[r]: D / 2 cosines,
// then D / 2 sines; pairs are (i, i + D / 2). Without ROTATE nothing is rotated. Queries are rotated in place; row r's keys and
// values are written to slot `slot + r`.
//
// NORMED: queries and keys are normed in each head before they are rotated: x / sqrt(mean(x²) + eps) * weight. Order of the sum: a
// thread adds the squares of its eight values; then the threads of the head are added, ascending.
override D: u32;
override ROTATE: u32;

struct Params {
    rows: u32,
    heads: u32,
    kv_heads: u32,
    // Width of a row of qkv, in fours.
    stride: u32,
    slot: u32,
    capacity: u32,
    eps: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> qkv: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> angles: array<vec4<f32>>;

// Where a head's eight values of a thread go: fours c and c + D / 8 of a slot's keys or values.
struct Place {
    // False for queries, and beyond the rows.
    is_kept: bool,
    is_value: bool,
    head: u32,
    slot: u32,
    c: u32,
}

//: if NORMED
@group(0) @binding(5) var<storage, read> query_weight: array<vec4<f32>>;
@group(0) @binding(6) var<storage, read> key_weight: array<vec4<f32>>;

var<workgroup> squares: array<f32, 64>;

fn square(value: vec4<f32>, sum: f32) -> f32 {
    return fma(value.w, value.w, fma(value.z, value.z, fma(value.y, value.y, fma(value.x, value.x, sum))));
}
//: end

// A thread takes four pairs of a query or a key, or twice four values; a head stays within a workgroup.
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let row = group.z * 32768u + group.y;
    let half = D / 8u;
    let whole = 64u / half;
    let head = group.x * whole + thread / half;
    let c = thread % half;
    let first_value = params.heads + params.kv_heads;
    let used = row < params.rows && thread < whole * half && head < first_value + params.kv_heads;
    let at = row * params.stride + head * (D / 4u) + c;
    var low = vec4<f32>(0.0);
    var high = vec4<f32>(0.0);
    if (used) {
        low = qkv[at];
        high = qkv[at + half];
    }
    //: if NORMED
    squares[thread] = square(high, square(low, 0.0));
    workgroupBarrier();
    if (used && head < first_value) {
        var sum = 0.0;
        for (var i = 0u; i < half; i++) {
            sum += squares[thread - c + i];
        }
        let scale = 1.0 / sqrt(sum / f32(D) + params.eps);
        if (head < params.heads) {
            low = low * scale * query_weight[c];
            high = high * scale * query_weight[c + half];
        } else {
            low = low * scale * key_weight[c];
            high = high * scale * key_weight[c + half];
        }
    }
    //: end
    if (ROTATE == 1u && used && head < first_value) {
        let cosine = angles[row * (D / 4u) + c];
        let sine = angles[row * (D / 4u) + half + c];
        let turned = fma(low, cosine, -(high * sine));
        high = fma(high, cosine, low * sine);
        low = turned;
        if (head < params.heads) {
            qkv[at] = low;
            qkv[at + half] = high;
        }
    }
    let is_value = head >= first_value;
    let kv = select(head - params.heads, head - first_value, is_value);
    keep(Place(used && head >= params.heads, is_value, kv, params.slot + row, c), thread, low, high);
}
