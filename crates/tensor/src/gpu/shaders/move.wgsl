// Move slots of one layer of a cache: moves[2 i] to moves[2 i + 1], one after the other. A thread moves 16 bytes of each slot, in
// order, so that a slot may be the source of one move and the target of a later one.
struct Params {
    heads: u32,
    // 16-byte pieces of a slot's keys, and of its values.
    pieces: u32,
    capacity: u32,
    moves: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> moves: array<u32>;
@group(0) @binding(2) var<storage, read_write> keys: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read_write> values: array<vec4<u32>>;

fn key_place(head: u32, slot: u32, c: u32) -> u32 {
    return (head * params.capacity + slot / 32u * 32u) * params.pieces + c * 32u + slot % 32u;
}

fn value_place(head: u32, slot: u32, c: u32) -> u32 {
    return (head * params.capacity + slot) * params.pieces + c;
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let head = id.x / params.pieces;
    let c = id.x % params.pieces;
    if (head >= params.heads) {
        return;
    }
    for (var i = 0u; i < params.moves; i++) {
        let source = moves[2u * i];
        let to = moves[2u * i + 1u];
        keys[key_place(head, to, c)] = keys[key_place(head, source, c)];
        values[value_place(head, to, c)] = values[value_place(head, source, c)];
    }
}
