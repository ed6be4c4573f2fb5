// out[r] = row ids[r] of a table, of which this piece has `outputs` rows from `first` on; other rows of `out` stay as they are.
struct Params {
    // Values of a row.
    width: u32,
    // Blocks of 32 of a row as stored.
    blocks: u32,
    first: u32,
    outputs: u32,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(next) var<storage, read> ids: array<u32>;
@group(0) @binding(next) var<storage, read_write> out: array<f32>;

fn put(row: u32, at: u32, values: vec4<f32>) {
    //: each k 4
    if at + $ku < p.width {
        out[row * p.width + at + $ku] = values[$k];
    }
    //: end
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) index: u32) {
    let b = group.x * 64u + index;
    let id = ids[group.y];
    if b >= p.blocks || id < p.first || id - p.first >= p.outputs {
        return;
    }
    let start = (id - p.first) / 16u * p.blocks + b;
    let lane = (id - p.first) % 16u;
    //: if BLOCKS
    let w = block(start, lane);
    //: each k 4
    put(group.y, b * 32u + 4u * $ku, widen(w, vec4<f32>(unpack4xI8(w.low[$k])), false));
    put(group.y, b * 32u + 16u + 4u * $ku, widen(w, vec4<f32>(unpack4xI8(w.high[$k])), true));
    //: end
    //: else
    //: each k 4
    let w_$k = eight(start * 4u + $ku, lane);
    put(group.y, b * 32u + 8u * $ku, w_$k.low);
    put(group.y, b * 32u + 8u * $ku + 4u, w_$k.high);
    //: end
    //: end
}
