// Rows of `width` values as rows of `padded` values, with zeros after them. GATED: silu(gate) times value, of rows of `width`
// gates and as many values.
struct Params {
    width: u32,
    padded: u32,
    // The first row.
    row: u32,
    padding: u32,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(next) var<storage, read> x: array<f32>;
@group(0) @binding(next) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) index: u32) {
    let i = group.x * 256u + index;
    if i >= p.padded {
        return;
    }
    var value = 0.0;
    if i < p.width {
        //: if GATED
        let start = (p.row + group.y) * p.width * 2u + i;
        let gate = x[start];
        value = gate / (1.0 + exp(min(-gate, 80.0))) * x[start + p.width];
        //: else
        value = x[(p.row + group.y) * p.width + i];
        //: end
    }
    y[group.y * p.padded + i] = value;
}
