// Parts of KL(p, q) of rows of logits: sums[pair * blocks + b] = Σ p (log p - log q) over 4096 ids, p and q being the softmax of row
// pairs[pair].x of one matrix and of row pairs[pair].y of another. Ids whose log p is below -40 do not count; an id that q does not
// have makes the part 1e30.
//
// Order of the sums: thread t takes the values t, t + 256, … of the block ascending; then a tree of halves.
const BLOCK = 4096u;

struct Params {
    p_vocab: u32,
    p_stride: u32,
    q_vocab: u32,
    q_stride: u32,
    blocks: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> p: array<f32>;
@group(0) @binding(2) var<storage, read> p_facts: array<u32>;
@group(0) @binding(3) var<storage, read> q: array<f32>;
@group(0) @binding(4) var<storage, read> q_facts: array<u32>;
@group(0) @binding(5) var<storage, read> pairs: array<vec2<u32>>;
@group(0) @binding(6) var<storage, read_write> sums: array<f32>;

var<workgroup> parts: array<f32, 256>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let pair = pairs[group.y];
    let p_top = bitcast<f32>(p_facts[pair.x * 8u]);
    let p_log = log(bitcast<f32>(p_facts[pair.x * 8u + 4u]));
    let q_top = bitcast<f32>(q_facts[pair.y * 8u]);
    let q_log = log(bitcast<f32>(q_facts[pair.y * 8u + 4u]));
    let start = group.x * BLOCK;
    var sum = 0.0;
    var beyond = false;
    for (var i = start + thread; i < min(start + BLOCK, params.p_vocab); i += 256u) {
        let log_p = (p[pair.x * params.p_stride + i] - p_top) - p_log;
        if (log_p > -40.0) {
            if (i < params.q_vocab) {
                let log_q = (q[pair.y * params.q_stride + i] - q_top) - q_log;
                sum = fma(exp(log_p), log_p - log_q, sum);
            } else {
                beyond = true;
            }
        }
    }
    parts[thread] = select(sum, 1e30, beyond);
    for (var half = 128u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if (thread < half) {
            let both = parts[thread] + parts[thread + half];
            parts[thread] = select(both, 1e30, max(parts[thread], parts[thread + half]) >= 1e30);
        }
    }
    if (thread == 0u) {
        sums[group.y * params.blocks + group.x] = parts[0];
    }
}
