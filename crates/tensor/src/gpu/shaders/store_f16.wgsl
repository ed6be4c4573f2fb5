// Keys and values in f16, as their writer sees them; see kv_f16.wgsl. Numbers beyond the largest of f16 become that one.
@group(0) @binding(3) var<storage, read_write> keys: array<vec2<u32>>;
@group(0) @binding(4) var<storage, read_write> values: array<vec2<u32>>;

fn halves(value: vec4<f32>) -> vec2<u32> {
    let bounded = clamp(value, vec4<f32>(-65504.0), vec4<f32>(65504.0));
    return vec2<u32>(pack2x16float(bounded.xy), pack2x16float(bounded.zw));
}

fn store_key(head: u32, slot: u32, c: u32, value: vec4<f32>) {
    let place = (head * params.capacity + slot / 32u * 32u) * (D / 8u) + c / 2u * 32u + slot % 32u;
    keys[place * 2u + c % 2u] = halves(value);
}

fn store_value(head: u32, slot: u32, c: u32, value: vec4<f32>) {
    values[(head * params.capacity + slot) * (D / 4u) + c] = halves(value);
}
