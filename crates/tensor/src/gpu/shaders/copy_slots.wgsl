// Copy slots of one layer of a cache to another cache: slot `source + i`, or with LISTED slots[head * count + i], to slot `to + i`.
override LISTED: u32;

struct Params {
    heads: u32,
    // 16-byte pieces of a slot's keys, and of its values.
    pieces: u32,
    from_capacity: u32,
    to_capacity: u32,
    first: u32,
    to: u32,
    count: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> slots: array<u32>;
@group(0) @binding(2) var<storage, read> from_keys: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> from_values: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read_write> to_keys: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read_write> to_values: array<vec4<u32>>;

fn key_place(capacity: u32, head: u32, slot: u32, c: u32) -> u32 {
    return (head * capacity + slot / 32u * 32u) * params.pieces + c * 32u + slot % 32u;
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let i = id.x / params.pieces;
    let c = id.x % params.pieces;
    let head = id.y;
    if (i >= params.count) {
        return;
    }
    var source = params.first + i;
    if (LISTED == 1u) {
        source = slots[head * params.count + i];
    }
    let to = params.to + i;
    to_keys[key_place(params.to_capacity, head, to, c)] = from_keys[key_place(params.from_capacity, head, source, c)];
    to_values[(head * params.to_capacity + to) * params.pieces + c] =
        from_values[(head * params.from_capacity + source) * params.pieces + c];
}
