// Inputs in blocks of 32: signed bytes, their scale and sum. A workgroup has 32 blocks of a row. Blocks after the end of the row
// are zeros.
struct Params {
    // Values of a row, a multiple of 32.
    width: u32,
    // Blocks of a row as stored.
    blocks: u32,
    // The first row.
    row: u32,
    padding: u32,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(next) var<storage, read> x: array<vec4<f32>>;

// GATED: silu(gate) times value, of rows of `width` gates and as many values.
fn values(row: u32, at: u32) -> vec4<f32> {
    //: if GATED
    let start = (p.row + row) * p.width / 2u + at;
    let gate = x[start];
    return gate / (vec4(1.0) + exp(min(-gate, vec4(80.0)))) * x[start + p.width / 4u];
    //: else
    return x[(p.row + row) * p.width / 4u + at];
    //: end
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) index: u32) {
    let word = group.x * 256u + index;
    var v = vec4(0.0);
    if word * 4u < p.width {
        v = values(group.y, word);
    }
    quantize(v, group.y, p.blocks, word, index);
}
