// Few rows: bound by reading the weights. A workgroup computes a panel of 16 outputs for ROWS rows; invocation (lane, chunk) adds
// one chunk of one output, so that 16 lanes read 256 consecutive bytes and no lane needs another's values until the end. Inputs
// are the same for all lanes of a chunk and come from the cache. Two blocks at a time: more reads are in flight.
@group(0) @binding(next) var<storage, read> input_quants: array<vec4<u32>>;
@group(0) @binding(next) var<storage, read> input_scales: array<vec2<u32>>;
//: if EXPERTS
@group(0) @binding(next) var<storage, read> plan: array<u32>;
//: else
@group(0) @binding(next) var<storage, read> bias: array<f32>;
//: end
@group(0) @binding(next) var<storage, read_write> y: array<f32>;

var<workgroup> sums: array<f32, 256 * ROWS>;

fn input(b: u32) -> Input {
    let scale = input_scales[b];
    return Input(input_quants[2u * b], input_quants[2u * b + 1u], bitcast<f32>(scale.x), bitcast<i32>(scale.y));
}

@compute @workgroup_size(16, 16)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_id) local: vec3<u32>) {
    let lane = local.x;
    //: if EXPERTS
    begin(group.y);
    let first_row = 0u;
    let end = select(0u, min((local.y + 1u) * p.chunk, p.blocks), is_used(group.x));
    //: else
    let first_row = group.y * ROWSu;
    let end = min((local.y + 1u) * p.chunk, p.blocks);
    //: end
    let weights = weights_of(group.x);
    //: each r ROWS
    var sum_$r = 0.0;
    let x_$r = inputs_of(first_row + $ru);
    //: end
    for (var b = local.y * p.chunk; b < end; b += 2u) {
        let even = block(weights + b, lane);
        let odd = block(weights + b + 1u, lane);
        //: each r ROWS
        sum_$r = add(even, input(x_$r + b), sum_$r);
        sum_$r = add(odd, input(x_$r + b + 1u), sum_$r);
        //: end
    }
    //: each r ROWS
    sums[($ru * 16u + local.y) * 16u + lane] = sum_$r;
    //: end
    workgroupBarrier();
    finish(group.x * 16u + lane, first_row, local.y, lane);
}
