// Keys and values in blocks of 32 signed bytes with a scale, the last one of a head perhaps shorter, as their readers see them. A
// slot of a head is D bytes, filled up to whole pieces of 16 bytes, then its scales, four to a piece. Keys of a head stand in blocks
// of 32 slots: a piece of each slot, then the next one; values of a head are rows.
@group(0) @binding(2) var<storage, read> keys: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> values: array<u32>;

struct Eight {
    low: vec4<f32>,
    high: vec4<f32>,
}

// Pieces of a slot, all and those of bytes.
fn width() -> u32 {
    return pieces() + (D + 127u) / 128u;
}

fn pieces() -> u32 {
    return (D + 15u) / 16u;
}

// Where the keys of a slot begin.
fn key_place(head: u32, slot: u32) -> u32 {
    return (head * params.capacity + slot / 32u * 32u) * width() + slot % 32u;
}

// Dimensions 8 c … 8 c + 7 of the keys of a slot.
fn key8(place: u32, c: u32) -> Eight {
    let piece = keys[place + c / 2u * 32u];
    let bytes = select(piece.xy, piece.zw, c % 2u == 1u);
    let scale = bitcast<f32>(keys[place + (pieces() + c / 16u) * 32u][c / 4u % 4u]);
    return Eight(vec4<f32>(unpack4xI8(bytes.x)) * scale, vec4<f32>(unpack4xI8(bytes.y)) * scale);
}

// Dimensions 4 c … 4 c + 3 of the values of a slot.
fn value4(head: u32, slot: u32, c: u32) -> vec4<f32> {
    let row = (head * params.capacity + slot) * width() * 4u;
    return vec4<f32>(unpack4xI8(values[row + c])) * bitcast<f32>(values[row + pieces() * 4u + c / 8u]);
}
