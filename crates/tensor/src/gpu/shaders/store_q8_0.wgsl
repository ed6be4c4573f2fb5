// Keys and values in 8-bit blocks, as their writer sees them; see kv_q8_0.wgsl. A block's scale is max |v| / 127.
@group(0) @binding(3) var<storage, read_write> keys: array<u32>;
@group(0) @binding(4) var<storage, read_write> values: array<u32>;

// The largest of each thread's fours, low and high.
var<workgroup> peaks: array<f32, 128>;

fn peak_of(v: vec4<f32>) -> f32 {
    let four = abs(v);
    return max(max(four.x, four.y), max(four.z, four.w));
}

fn keep(to: Place, thread: u32, low: vec4<f32>, high: vec4<f32>) {
    peaks[2u * thread] = peak_of(low);
    peaks[2u * thread + 1u] = peak_of(high);
    workgroupBarrier();
    if (to.is_kept) {
        keep4(to, to.c, thread - to.c, low);
        keep4(to, to.c + D / 8u, thread - to.c, high);
    }
}

// `first` is the head's first thread.
fn keep4(to: Place, c: u32, first: u32, value: vec4<f32>) {
    let half = D / 8u;
    let block = c / 8u;
    var peak = 0.0;
    for (var four = 8u * block; four < min(8u * block + 8u, D / 4u); four++) {
        peak = max(peak, peaks[2u * (first + four % half) + four / half]);
    }
    var inverse = 0.0;
    if (peak > 0.0) {
        inverse = 127.0 / peak;
    }
    let quants = pack4xI8(vec4<i32>(clamp(round(value * inverse), vec4<f32>(-127.0), vec4<f32>(127.0))));
    // A product, as divisions are not exact everywhere.
    let scale = bitcast<u32>(peak * 0.007874016);
    let pieces = (D + 15u) / 16u;
    let width = pieces + (D + 127u) / 128u;
    if (to.is_value) {
        let row = (to.head * params.capacity + to.slot) * width * 4u;
        values[row + c] = quants;
        if (c % 8u == 0u) {
            values[row + pieces * 4u + block] = scale;
        }
    } else {
        let place = (to.head * params.capacity + to.slot / 32u * 32u) * width + to.slot % 32u;
        keys[(place + c / 4u * 32u) * 4u + c % 4u] = quants;
        if (c % 8u == 0u) {
            keys[(place + (pieces + block / 4u) * 32u) * 4u + block % 4u] = scale;
        }
    }
}
