// As `norm.wgsl`, with the same order of the sum; the result only in blocks of 32. One row per workgroup: x += add, then
// rms_norm(x) * weight. Without ADD, x is only read.
struct Params {
    // A multiple of 32.
    width: u32,
    // Blocks of a row as stored.
    blocks: u32,
    eps: f32,
    padding: u32,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(next) var<storage, read_write> x: array<f32>;
@group(0) @binding(next) var<storage, read> addend: array<f32>;
@group(0) @binding(next) var<storage, read> weight: array<f32>;

var<workgroup> sums: array<f32, 256>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) index: u32) {
    let at = group.x * p.width;
    var sum = 0.0;
    for (var i = index; i < p.width; i += 256u) {
        var value = x[at + i];
        //: if ADD
        value += addend[at + i];
        x[at + i] = value;
        //: end
        sum = fma(value, value, sum);
    }
    sums[index] = sum;
    for (var half = 128u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if index < half {
            sums[index] += sums[index + half];
        }
    }
    // Values that other invocations have written are read below.
    storageBarrier();
    workgroupBarrier();
    let scale = 1.0 / sqrt(sums[0] / f32(p.width) + p.eps);
    for (var first = 0u; first < p.blocks * 8u; first += 256u) {
        let word = first + index;
        var v = vec4(0.0);
        if word * 4u < p.width {
            let i = 4u * word;
            let values = vec4(x[at + i], x[at + i + 1u], x[at + i + 2u], x[at + i + 3u]);
            v = values * scale * vec4(weight[i], weight[i + 1u], weight[i + 2u], weight[i + 3u]);
        }
        quantize(v, group.x, p.blocks, word, index);
    }
}
