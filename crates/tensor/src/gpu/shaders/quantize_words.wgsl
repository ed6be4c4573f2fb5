// Values as blocks of 32 signed bytes, with scale = max |v| / 127 and the sum of the bytes.
@group(0) @binding(next) var<storage, read_write> quants: array<u32>;
@group(0) @binding(next) var<storage, read_write> scales: array<vec2<u32>>;

var<workgroup> peaks: array<f32, 256>;
var<workgroup> totals: array<i32, 256>;

// All 256 invocations: four values each, so eight invocations to a block. `word` is the place of the four in their row of `blocks`
// blocks; those beyond it are not stored. Neighbors in a block are neighbors in `index`.
fn quantize(v: vec4<f32>, row: u32, blocks: u32, word: u32, index: u32) {
    let four = abs(v);
    peaks[index] = max(max(four.x, four.y), max(four.z, four.w));
    workgroupBarrier();
    let first = index & ~7u;
    var peak = 0.0;
    for (var i = 0u; i < 8u; i += 1u) {
        peak = max(peak, peaks[first + i]);
    }
    var inverse = 0.0;
    if peak > 0.0 {
        inverse = 127.0 / peak;
    }
    let q = vec4<i32>(clamp(round(v * inverse), vec4(-127.0), vec4(127.0)));
    totals[index] = q.x + q.y + q.z + q.w;
    workgroupBarrier();
    let b = word / 8u;
    if b < blocks {
        quants[row * blocks * 8u + word] = pack4xI8(q);
        if index == first {
            var total = 0;
            for (var i = 0u; i < 8u; i += 1u) {
                total += totals[first + i];
            }
            // A product, as divisions are not exact everywhere.
            scales[row * blocks + b] = vec2(bitcast<u32>(peak * 0.007874016), bitcast<u32>(total));
        }
    }
}
