// Keys and values in f32, as their readers see them. Keys of a head stand in blocks of 32 slots: 16 bytes (4 dimensions) of each
// slot, then the next 16 bytes; values of a head are rows.
@group(0) @binding(2) var<storage, read> keys: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> values: array<vec4<f32>>;

struct Eight {
    low: vec4<f32>,
    high: vec4<f32>,
}

// Where the keys of a slot begin.
fn key_place(head: u32, slot: u32) -> u32 {
    return (head * params.capacity + slot / 32u * 32u) * (D / 4u) + slot % 32u;
}

// Dimensions 8 c … 8 c + 7 of the keys of a slot.
fn key8(place: u32, c: u32) -> Eight {
    return Eight(keys[place + c * 64u], keys[place + c * 64u + 32u]);
}

// Dimensions 4 c … 4 c + 3 of the values of a slot.
fn value4(head: u32, slot: u32, c: u32) -> vec4<f32> {
    return values[(head * params.capacity + slot) * (D / 4u) + c];
}
