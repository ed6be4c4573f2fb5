// out[i] = x[rows[i]][ids[i]]: single values of rows of `stride` values. `picks` holds row and id of each.
struct Params {
    count: u32,
    stride: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> picks: array<vec2<u32>>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x < params.count) {
        let pick = picks[id.x];
        out[id.x] = x[pick.x * params.stride + pick.y];
    }
}
