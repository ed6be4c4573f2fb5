// Attention of eight queries of one key head over one span of 128 visible tokens.
//
// A row sees tokens 0, 1, … count - 1: token i is slot start + i below `prefix`, else one of its path. A span is 128 consecutive
// tokens, so it depends on the number of a token in its row only, never on the other rows or on where its slot lies. The record of
// a query and span: the largest score, the sum of exp(score - largest), with PROBE the largest score of a measured slot; then the
// D sums of exp(score - largest) * value.
//
// Order of the sums. Score: four lanes (dimension modulo 4), each ascending, then (x + y) + (z + w). Sum of weights: sixteen lanes
// (token modulo 16), each ascending, then ascending. Values: tokens ascending.
override D: u32;
// Queries of a thread in the sums of values: 1, 2 or 4.
override PER: u32;
override PROBE: u32;

const TILE = 8u;
const SPAN = 128u;
// Finite, below all scores; its exponential is 0.
const HIDDEN = -1e30;

struct Params {
    // Rows of this dispatch, and the first of them.
    rows: u32,
    first_row: u32,
    heads: u32,
    group: u32,
    // Width of a row of qkv, in fours.
    stride: u32,
    capacity: u32,
    // Spans of the longest row.
    spans: u32,
    scale: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> qkv: array<vec4<f32>>;
// For each row: start, prefix, where its path begins in this table, count; then the paths' slots.
@group(0) @binding(4) var<storage, read> visible: array<u32>;
@group(0) @binding(5) var<storage, read_write> records: array<vec4<f32>>;
// A bit for each slot.
@group(0) @binding(6) var<storage, read> measured: array<u32>;

var<workgroup> about: array<vec4<u32>, 8>;
var<workgroup> queries: array<vec4<f32>, 512>;
var<workgroup> weights: array<f32, 1024>;
var<workgroup> partial: array<f32, 128>;
var<workgroup> largest: array<f32, 8>;
var<workgroup> largest_measured: array<f32, 8>;

fn slot_of(row: vec4<u32>, token: u32) -> u32 {
    if (token < row.y) {
        return row.x + token;
    }
    return visible[row.z + token - row.y];
}

fn total(v: vec4<f32>) -> f32 {
    return (v.x + v.y) + (v.z + v.w);
}

fn is_measured(slot: u32) -> bool {
    return (measured[slot / 32u] >> (slot % 32u) & 1u) == 1u;
}

fn record(n: u32, head: u32, span: u32) -> u32 {
    let query = n / params.group * params.heads + head * params.group + n % params.group;
    return (query * params.spans + span) * (D / 4u + 1u);
}

fn hide(query: u32, token: u32, score: vec4<f32>) -> f32 {
    return select(HIDDEN, total(score), token < about[query].w);
}

// The largest of the 128 values of each query, by sixteen threads a query; valid after the next barrier in thread < 8.
fn lane_largest(thread: u32) -> f32 {
    let first = thread / 16u * SPAN + thread % 16u;
    var top = weights[first];
    for (var i = 16u; i < SPAN; i += 16u) {
        top = max(top, weights[first + i]);
    }
    return top;
}

fn across_largest(query: u32) -> f32 {
    var top = partial[query * 16u];
    for (var i = 1u; i < 16u; i++) {
        top = max(top, partial[query * 16u + i]);
    }
    return top;
}

// The sum with four more values, whose weights begin at `at`.
fn add4(sum: vec4<f32>, at: u32, v0: vec4<f32>, v1: vec4<f32>, v2: vec4<f32>, v3: vec4<f32>) -> vec4<f32> {
    let first = fma(vec4<f32>(weights[at + 1u]), v1, fma(vec4<f32>(weights[at]), v0, sum));
    return fma(vec4<f32>(weights[at + 3u]), v3, fma(vec4<f32>(weights[at + 2u]), v2, first));
}

@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let span = group.x;
    let first = group.y * TILE;
    let head = group.z;
    let all = params.rows * params.group;
    let wide = D / 4u;
    if (thread < TILE) {
        let n = first + thread;
        var row = vec4<u32>(0u);
        if (n < all) {
            let at = (params.first_row + n / params.group) * 4u;
            row = vec4<u32>(visible[at], visible[at + 1u], visible[at + 2u], visible[at + 3u]);
        }
        about[thread] = row;
    }
    for (var i = thread; i < TILE * wide; i += 128u) {
        let n = first + i / wide;
        var query = vec4<f32>(0.0);
        if (n < all) {
            let row = params.first_row + n / params.group;
            let own = head * params.group + n % params.group;
            query = qkv[row * params.stride + own * wide + i % wide] * params.scale;
        }
        queries[i] = query;
    }
    workgroupBarrier();

    let start = span * SPAN;
    let token = start + thread;
    // True if all queries have their tokens of this span in the same slots, which follow each other.
    var alike = true;
    var longest = 0u;
    for (var q = 0u; q < TILE; q++) {
        let row = about[q];
        longest = max(longest, row.w);
        alike = alike && (row.w <= start || (row.x == about[0].x && (row.w <= row.y || start + SPAN <= row.y)));
    }
    if (alike) {
        var a0 = vec4<f32>(0.0);
        var a1 = a0;
        var a2 = a0;
        var a3 = a0;
        var a4 = a0;
        var a5 = a0;
        var a6 = a0;
        var a7 = a0;
        // All threads take part, those without a token with the last one: nothing diverges.
        let place = key_place(head, about[0].x + min(token, max(longest, 1u) - 1u));
        let chunks = select(0u, D / 8u, start < longest);
        for (var c = 0u; c < chunks; c++) {
            let key = key8(place, c);
            let q = 2u * c;
            a0 = fma(key.high, queries[q + 1u], fma(key.low, queries[q], a0));
            a1 = fma(key.high, queries[q + wide + 1u], fma(key.low, queries[q + wide], a1));
            a2 = fma(key.high, queries[q + 2u * wide + 1u], fma(key.low, queries[q + 2u * wide], a2));
            a3 = fma(key.high, queries[q + 3u * wide + 1u], fma(key.low, queries[q + 3u * wide], a3));
            a4 = fma(key.high, queries[q + 4u * wide + 1u], fma(key.low, queries[q + 4u * wide], a4));
            a5 = fma(key.high, queries[q + 5u * wide + 1u], fma(key.low, queries[q + 5u * wide], a5));
            a6 = fma(key.high, queries[q + 6u * wide + 1u], fma(key.low, queries[q + 6u * wide], a6));
            a7 = fma(key.high, queries[q + 7u * wide + 1u], fma(key.low, queries[q + 7u * wide], a7));
        }
        weights[thread] = hide(0u, token, a0);
        weights[thread + SPAN] = hide(1u, token, a1);
        weights[thread + 2u * SPAN] = hide(2u, token, a2);
        weights[thread + 3u * SPAN] = hide(3u, token, a3);
        weights[thread + 4u * SPAN] = hide(4u, token, a4);
        weights[thread + 5u * SPAN] = hide(5u, token, a5);
        weights[thread + 6u * SPAN] = hide(6u, token, a6);
        weights[thread + 7u * SPAN] = hide(7u, token, a7);
    } else {
        for (var q = 0u; q < TILE; q++) {
            var a = vec4<f32>(0.0);
            if (token < about[q].w) {
                let place = key_place(head, slot_of(about[q], token));
                for (var c = 0u; c < D / 8u; c++) {
                    let key = key8(place, c);
                    a = fma(key.high, queries[q * wide + 2u * c + 1u], fma(key.low, queries[q * wide + 2u * c], a));
                }
            }
            weights[thread + q * SPAN] = hide(q, token, a);
        }
    }
    workgroupBarrier();

    partial[thread] = lane_largest(thread);
    workgroupBarrier();
    if (thread < TILE) {
        largest[thread] = across_largest(thread);
    }
    workgroupBarrier();
    if (PROBE == 1u) {
        let query = thread / 16u;
        var top = HIDDEN;
        for (var i = thread % 16u; i < SPAN; i += 16u) {
            if (start + i < about[query].w && is_measured(slot_of(about[query], start + i))) {
                top = max(top, weights[query * SPAN + i]);
            }
        }
        partial[thread] = top;
        workgroupBarrier();
        if (thread < TILE) {
            largest_measured[thread] = across_largest(thread);
        }
        workgroupBarrier();
    }
    for (var q = 0u; q < TILE; q++) {
        let at = q * SPAN + thread;
        weights[at] = select(0.0, exp(weights[at] - largest[q]), token < about[q].w);
    }
    workgroupBarrier();
    {
        let lane = thread / 16u * SPAN + thread % 16u;
        var sum = weights[lane];
        for (var i = 16u; i < SPAN; i += 16u) {
            sum += weights[lane + i];
        }
        partial[thread] = sum;
    }
    workgroupBarrier();
    if (thread < TILE && first + thread < all && start < about[thread].w) {
        var sum = partial[thread * 16u];
        for (var i = 1u; i < 16u; i++) {
            sum += partial[thread * 16u + i];
        }
        var probed = HIDDEN;
        if (PROBE == 1u) {
            probed = largest_measured[thread];
        }
        records[record(first + thread, head, span)] = vec4<f32>(largest[thread], sum, probed, 0.0);
    }

    // Values: a thread takes four dimensions of PER queries.
    let piece = thread % wide;
    let query = thread / wide * PER;
    if (query >= TILE || longest <= start) {
        return;
    }
    let count = min(longest - start, SPAN);
    let at = query * SPAN;
    var b0 = vec4<f32>(0.0);
    var b1 = b0;
    var b2 = b0;
    var b3 = b0;
    if (alike) {
        let slot = about[0].x + start;
        var i = 0u;
        // Four at a time, so that their values are read at once; the order stays.
        for (; i + 4u <= count; i += 4u) {
            let v0 = value4(head, slot + i, piece);
            let v1 = value4(head, slot + i + 1u, piece);
            let v2 = value4(head, slot + i + 2u, piece);
            let v3 = value4(head, slot + i + 3u, piece);
            b0 = add4(b0, at + i, v0, v1, v2, v3);
            if (PER > 1u) {
                b1 = add4(b1, at + SPAN + i, v0, v1, v2, v3);
            }
            if (PER > 2u) {
                b2 = add4(b2, at + 2u * SPAN + i, v0, v1, v2, v3);
                b3 = add4(b3, at + 3u * SPAN + i, v0, v1, v2, v3);
            }
        }
        for (; i < count; i++) {
            let value = value4(head, slot + i, piece);
            b0 = fma(vec4<f32>(weights[at + i]), value, b0);
            if (PER > 1u) {
                b1 = fma(vec4<f32>(weights[at + SPAN + i]), value, b1);
            }
            if (PER > 2u) {
                b2 = fma(vec4<f32>(weights[at + 2u * SPAN + i]), value, b2);
                b3 = fma(vec4<f32>(weights[at + 3u * SPAN + i]), value, b3);
            }
        }
    } else {
        for (var i = 0u; i < count; i++) {
            let token = start + i;
            if (token < about[query].w) {
                b0 = fma(vec4<f32>(weights[at + i]), value4(head, slot_of(about[query], token), piece), b0);
            }
            if (PER > 1u && token < about[query + 1u].w) {
                let value = value4(head, slot_of(about[query + 1u], token), piece);
                b1 = fma(vec4<f32>(weights[at + SPAN + i]), value, b1);
            }
            if (PER > 2u && token < about[query + 2u].w) {
                let value = value4(head, slot_of(about[query + 2u], token), piece);
                b2 = fma(vec4<f32>(weights[at + 2u * SPAN + i]), value, b2);
            }
            if (PER > 2u && token < about[query + 3u].w) {
                let value = value4(head, slot_of(about[query + 3u], token), piece);
                b3 = fma(vec4<f32>(weights[at + 3u * SPAN + i]), value, b3);
            }
        }
    }
    if (first + query < all && start < about[query].w) {
        records[record(first + query, head, span) + 1u + piece] = b0;
    }
    if (PER > 1u && first + query + 1u < all && start < about[query + 1u].w) {
        records[record(first + query + 1u, head, span) + 1u + piece] = b1;
    }
    if (PER > 2u && first + query + 2u < all && start < about[query + 2u].w) {
        records[record(first + query + 2u, head, span) + 1u + piece] = b2;
    }
    if (PER > 2u && first + query + 3u < all && start < about[query + 3u].w) {
        records[record(first + query + 3u, head, span) + 1u + piece] = b3;
    }
}
