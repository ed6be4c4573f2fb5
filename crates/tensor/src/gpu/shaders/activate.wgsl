// x[i] = f(x[i]) for `count` values. KIND: 1 quick GELU, 2 GELU approximated with tanh, 3 GELU.
override KIND: u32;

struct Params {
    count: u32,
    // Values in a row of workgroups.
    line: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> x: array<f32>;

// exp overflows to infinity from 88 on; 1 / (1 + e^80) is 0 for all that follows.
fn sigmoid(v: f32) -> f32 {
    return 1.0 / (1.0 + exp(min(-v, 80.0)));
}

fn gelu(v: f32) -> f32 {
    // erf by Abramowitz and Stegun, 7.1.26: absolute error below 1.5e-7.
    let z = abs(v) * 0.70710678;
    let t = 1.0 / fma(0.3275911, z, 1.0);
    var p = fma(1.061405429, t, -1.453152027);
    p = fma(p, t, 1.421413741);
    p = fma(p, t, -0.284496736);
    p = fma(p, t, 0.254829592);
    // The part of the distribution beyond |v|.
    let beyond = 0.5 * p * t * exp(max(-z * z, -80.0));
    return v * select(1.0 - beyond, beyond, v < 0.0);
}

@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let i = id.y * params.line + id.x;
    if (i >= params.count || id.x >= params.line) {
        return;
    }
    let v = x[i];
    if (KIND == 1u) {
        x[i] = v * sigmoid(1.702 * v);
    } else if (KIND == 2u) {
        // (1 + tanh u) / 2 = sigmoid(2 u), u = sqrt(2 / pi) (v + 0.044715 v³)
        x[i] = v * sigmoid(1.595769 * v * fma(0.044715 * v, v, 1.0));
    } else {
        x[i] = gelu(v);
    }
}
