// Keys and values in f32, as their writer sees them; see kv_f32.wgsl.
@group(0) @binding(3) var<storage, read_write> keys: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read_write> values: array<vec4<f32>>;

fn store_key(head: u32, slot: u32, c: u32, value: vec4<f32>) {
    keys[(head * params.capacity + slot / 32u * 32u) * (D / 4u) + c * 32u + slot % 32u] = value;
}

fn store_value(head: u32, slot: u32, c: u32, value: vec4<f32>) {
    values[(head * params.capacity + slot) * (D / 4u) + c] = value;
}
