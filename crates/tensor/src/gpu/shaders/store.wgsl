// Rotate the queries and keys of new rows and write keys and values to the cache.
//
// A row of qkv holds `heads` queries, `kv_heads` keys and as many values of D numbers. Row r is rotated by angles[r]: D / 2 cosines,
// then D / 2 sines; pairs are (i, i + D / 2). Without ROTATE nothing is rotated. Queries are rotated in place; row r's keys and
// values are written to slot `slot + r`.
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
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> qkv: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> angles: array<vec4<f32>>;

// A thread takes four pairs of a query or a key, or twice four values.
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let row = id.z * 32768u + id.y;
    let half = D / 8u;
    let head = id.x / half;
    let c = id.x % half;
    if (row >= params.rows || head >= params.heads + 2u * params.kv_heads) {
        return;
    }
    let at = row * params.stride + head * (D / 4u) + c;
    var low = qkv[at];
    var high = qkv[at + half];
    if (head >= params.heads + params.kv_heads) {
        let kv = head - params.heads - params.kv_heads;
        store_value(kv, params.slot + row, c, low);
        store_value(kv, params.slot + row, c + half, high);
        return;
    }
    if (ROTATE == 1u) {
        let cosine = angles[row * (D / 4u) + c];
        let sine = angles[row * (D / 4u) + half + c];
        let turned = fma(low, cosine, -(high * sine));
        high = fma(high, cosine, low * sine);
        low = turned;
    }
    if (head < params.heads) {
        if (ROTATE == 1u) {
            qkv[at] = low;
            qkv[at + half] = high;
        }
        return;
    }
    store_key(head - params.heads, params.slot + row, c, low);
    store_key(head - params.heads, params.slot + row, c + half, high);
}
