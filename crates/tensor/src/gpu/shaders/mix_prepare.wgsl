
// Convolve a head of a row, and norm it if it is one of queries or keys; the decay and the rate of a value head. A workgroup for
// each head. What is to be logged is.
//
// Order of a sum of squares: thread t takes the values t, t + 64, … ascending; then the threads are added in a tree of halves.
@group(0) @binding(5) var<storage, read> convolution: array<f32>;
@group(0) @binding(6) var<storage, read> heads: array<f32>;
@group(0) @binding(7) var<storage, read_write> prepared: array<f32>;

var<workgroup> sums: array<f32, 64>;

// log(1 + exp(x)).
fn softplus(x: f32) -> f32 {
    if (x > 20.0) {
        return x;
    }
    let e = exp(x);
    if (e < 0.01) {
        // 1 + e would lose most of e.
        return e * fma(e, fma(e, fma(e, -0.25, 0.33333334), -0.5), 1.0);
    }
    return log(1.0 + e);
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let row = group.z * 32768u + group.y;
    let unit = group.x;
    let normed = unit < 2u * p.key_heads;
    let head = select(unit - 2u * p.key_heads, 0u, normed);
    let first = select(2u * keys() + head * p.value_dim, unit * p.key_dim, normed);
    let width = select(0u, select(p.value_dim, p.key_dim, normed), row < p.rows);
    let place = select(NONE, table[p.places + row], row < p.rows);
    let to = row * prepared_width();
    let entered = row * p.width;
    let back = p.kernel - 1u;

    var sum = 0.0;
    for (var i = thread; i < width; i += 64u) {
        let channel = first + i;
        var x = 0.0;
        for (var j = 0u; j < back; j += 1u) {
            let value = earlier(table[p.windows + row * back + j], channel);
            x = fma(value, convolution[j * channels() + channel], x);
        }
        let own = source[entered + channel];
        x = fma(own, convolution[back * channels() + channel], x);
        x = x / (1.0 + exp(-x));
        prepared[to + channel] = x;
        sum = fma(x, x, sum);
        if (place != NONE) {
            journal[place * logged() + channel] = own;
        }
    }
    sums[thread] = sum;
    for (var half = 32u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if (thread < half) {
            sums[thread] += sums[thread + half];
        }
    }
    workgroupBarrier();
    if (normed) {
        var scale = 1.0 / sqrt(sums[0] + 1e-6);
        if (unit < p.key_heads) {
            scale /= sqrt(f32(p.key_dim));
        }
        for (var i = thread; i < width; i += 64u) {
            let x = prepared[to + first + i] * scale;
            prepared[to + first + i] = x;
            if (place != NONE && unit >= p.key_heads) {
                journal[place * logged() + channels() + first - keys() + i] = x;
            }
        }
    } else if (thread == 0u && row < p.rows) {
        let at = entered + channels() + values();
        let turn = source[at + head];
        let fade = source[at + p.value_heads + head] + heads[p.value_heads + head];
        let decay = exp(heads[head] * softplus(fade));
        prepared[to + channels() + head] = decay;
        prepared[to + channels() + p.value_heads + head] = 1.0 / (1.0 + exp(-turn));
        if (place != NONE) {
            journal[place * logged() + channels() + keys() + values() + head] = decay;
        }
    }
}
