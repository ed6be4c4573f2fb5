// Rows of `width` values from columns of one memory to columns of another; with ADD they are added to what is there.
override ADD: u32;

struct Params {
    width: u32,
    rows: u32,
    // The first value, and values from one row to the next.
    source_first: u32,
    source_stride: u32,
    out_first: u32,
    out_stride: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> source: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let row = id.z * 32768u + id.y;
    let i = id.x;
    if (row >= params.rows || i >= params.width) {
        return;
    }
    let value = source[params.source_first + row * params.source_stride + i];
    let at = params.out_first + row * params.out_stride + i;
    if (ADD == 1u) {
        out[at] += value;
    } else {
        out[at] = value;
    }
}
