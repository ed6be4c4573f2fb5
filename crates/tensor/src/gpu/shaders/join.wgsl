// out[row] = Σ weight · y[pair] over the row's experts, in ascending order; then, SHARED, gate · shared[row].
struct Params {
    width: u32,
    rows: u32,
    chosen: u32,
    padding: u32,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> y: array<f32>;
// See route.wgsl.
@group(0) @binding(2) var<storage, read> choice: array<vec2<u32>>;
@group(0) @binding(3) var<storage, read> shared_y: array<f32>;
@group(0) @binding(4) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let row = id.y;
    if id.x >= p.width {
        return;
    }
    var sum = 0.0;
    for (var k = 0u; k < p.chosen; k += 1u) {
        let pair = row * p.chosen + k;
        sum = fma(bitcast<f32>(choice[pair].y), y[pair * p.width + id.x], sum);
    }
    //: if SHARED
    sum = fma(bitcast<f32>(choice[p.rows * p.chosen + row].y), shared_y[row * p.width + id.x], sum);
    //: end
    out[row * p.width + id.x] = sum;
}
