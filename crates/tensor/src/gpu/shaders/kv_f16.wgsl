// Keys and values in f16, as their readers see them. Keys of a head stand in blocks of 32 slots: 16 bytes (8 dimensions) of each
// slot, then the next 16 bytes; values of a head are rows.
@group(0) @binding(2) var<storage, read> keys: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> values: array<vec2<u32>>;

struct Eight {
    low: vec4<f32>,
    high: vec4<f32>,
}

// Where the keys of a slot begin.
fn key_place(head: u32, slot: u32) -> u32 {
    return (head * params.capacity + slot / 32u * 32u) * (D / 8u) + slot % 32u;
}

// Dimensions 8 c … 8 c + 7 of the keys of a slot.
fn key8(place: u32, c: u32) -> Eight {
    let halves = keys[place + c * 32u];
    let low = vec4<f32>(unpack2x16float(halves.x), unpack2x16float(halves.y));
    return Eight(low, vec4<f32>(unpack2x16float(halves.z), unpack2x16float(halves.w)));
}

// Dimensions 4 c … 4 c + 3 of the values of a slot.
fn value4(head: u32, slot: u32, c: u32) -> vec4<f32> {
    let halves = values[(head * params.capacity + slot) * (D / 4u) + c];
    return vec4<f32>(unpack2x16float(halves.x), unpack2x16float(halves.y));
}
