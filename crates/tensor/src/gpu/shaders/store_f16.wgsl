// Keys and values in f16, as their writer sees them; see kv_f16.wgsl. Numbers beyond the largest of f16 become that one.
@group(0) @binding(3) var<storage, read_write> keys: array<vec2<u32>>;
@group(0) @binding(4) var<storage, read_write> values: array<vec2<u32>>;

fn keep(to: Place, thread: u32, low: vec4<f32>, high: vec4<f32>) {
    if (to.is_kept) {
        keep4(to, to.c, low);
        keep4(to, to.c + D / 8u, high);
    }
}

fn keep4(to: Place, c: u32, value: vec4<f32>) {
    let bounded = clamp(value, vec4<f32>(-65504.0), vec4<f32>(65504.0));
    let halves = vec2<u32>(pack2x16float(bounded.xy), pack2x16float(bounded.zw));
    if (to.is_value) {
        values[(to.head * params.capacity + to.slot) * (D / 4u) + c] = halves;
    } else {
        let place = (to.head * params.capacity + to.slot / 32u * 32u) * (D / 8u) + c / 2u * 32u + to.slot % 32u;
        keys[place * 2u + c % 2u] = halves;
    }
}
