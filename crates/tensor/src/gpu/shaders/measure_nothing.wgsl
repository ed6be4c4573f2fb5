// The cost of a command.

struct Params {
    value: u32,
    unused: vec3<u32>,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> last: array<u32>;

@compute @workgroup_size(1)
fn main() {
    last[0] += params.value;
}
