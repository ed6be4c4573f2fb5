// The experts of each row, in ascending order, with their weights: of the largest logits (of equal ones the first), the softmax
// among themselves; and the sigmoid of the last logit, the gate of the shared expert, if there is one.
//
// Order of the sum of exponentials: from the largest logit down.
struct Params {
    rows: u32,
    experts: u32,
    chosen: u32,
    // Logits of a row: one more than experts if there is a shared one.
    stride: u32,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> logits: array<f32>;
// For each row, its experts and the bits of their weights; then for each row the bits of its gate, with 0.
@group(0) @binding(2) var<storage, read_write> choice: array<vec2<u32>>;

// True if an expert comes before another one.
fn precedes(at: u32, a: u32, b: u32) -> bool {
    return logits[at + a] > logits[at + b] || (logits[at + a] == logits[at + b] && a < b);
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let row = id.x;
    if row >= p.rows {
        return;
    }
    let at = row * p.stride;
    let to = row * p.chosen;
    var last = 0u;
    var largest = 0.0;
    var sum = 0.0;
    for (var k = 0u; k < p.chosen; k += 1u) {
        // The first of those that come after the last one.
        var best = p.experts;
        for (var e = 0u; e < p.experts; e += 1u) {
            if (k == 0u || precedes(at, last, e)) && (best == p.experts || precedes(at, e, best)) {
                best = e;
            }
        }
        // Without numbers in the logits there is none.
        best = min(best, p.experts - 1u);
        if k == 0u {
            largest = logits[at + best];
        }
        let weight = exp(logits[at + best] - largest);
        sum += weight;
        // Inserted among those before it.
        var place = k;
        for (; place > 0u && choice[to + place - 1u].x > best; place -= 1u) {
            choice[to + place] = choice[to + place - 1u];
        }
        choice[to + place] = vec2(best, bitcast<u32>(weight));
        last = best;
    }
    for (var k = 0u; k < p.chosen; k += 1u) {
        choice[to + k].y = bitcast<u32>(bitcast<f32>(choice[to + k].y) / sum);
    }
    if p.stride > p.experts {
        let gate = 1.0 / (1.0 + exp(-logits[at + p.experts]));
        choice[p.rows * p.chosen + row] = vec2(0u, bitcast<u32>(gate));
    }
}
