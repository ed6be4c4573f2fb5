// Keys and values in f32, as their writer sees them; see kv_f32.wgsl.
@group(0) @binding(3) var<storage, read_write> keys: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read_write> values: array<vec4<f32>>;

fn keep(to: Place, thread: u32, low: vec4<f32>, high: vec4<f32>) {
    if (to.is_kept) {
        keep4(to, to.c, low);
        keep4(to, to.c + D / 8u, high);
    }
}

fn keep4(to: Place, c: u32, value: vec4<f32>) {
    if (to.is_value) {
        values[(to.head * params.capacity + to.slot) * (D / 4u) + c] = value;
    } else {
        keys[(to.head * params.capacity + to.slot / 32u * 32u) * (D / 4u) + c * 32u + to.slot % 32u] = value;
    }
}
