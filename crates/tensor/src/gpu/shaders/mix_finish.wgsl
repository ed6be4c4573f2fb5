
// Norm a head of a row of answers, and multiply it by silu of its gate; a workgroup for each head.
@group(0) @binding(1) var<storage, read> source: array<f32>;
@group(0) @binding(2) var<storage, read> weight: array<f32>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;

var<workgroup> sums: array<f32, 64>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let row = group.z * 32768u + group.y;
    let width = select(0u, p.value_dim, row < p.rows);
    let at = row * values() + group.x * p.value_dim;
    let gates = row * p.width + channels() + group.x * p.value_dim;
    var sum = 0.0;
    for (var i = thread; i < width; i += 64u) {
        sum = fma(out[at + i], out[at + i], sum);
    }
    sums[thread] = sum;
    for (var half = 32u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if (thread < half) {
            sums[thread] += sums[thread + half];
        }
    }
    workgroupBarrier();
    let scale = 1.0 / sqrt(sums[0] / f32(p.value_dim) + p.eps);
    for (var i = thread; i < width; i += 64u) {
        let gate = source[gates + i];
        out[at + i] = out[at + i] * scale * weight[i] * (gate / (1.0 + exp(-gate)));
    }
}
