// Few rows, weights in floats: as for blocks. Inputs are rows of `blocks` blocks of 32 values.
@group(0) @binding(next) var<storage, read> x: array<vec4<f32>>;
//: if EXPERTS
@group(0) @binding(next) var<storage, read> plan: array<u32>;
//: else
@group(0) @binding(next) var<storage, read> bias: array<f32>;
//: end
@group(0) @binding(next) var<storage, read_write> y: array<f32>;

var<workgroup> sums: array<f32, 256 * ROWS>;

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
    for (var b = local.y * p.chunk; b < end; b += 1u) {
        let part = (weights + b) * 4u;
        //: each q 4
        let w_$q = eight(part + $qu, lane);
        //: end
        //: each q 4
        //: each r ROWS
        sum_$r = add4(w_$q.low, x[(x_$r + b) * 8u + 2u * $qu], sum_$r);
        sum_$r = add4(w_$q.high, x[(x_$r + b) * 8u + 2u * $qu + 1u], sum_$r);
        //: end
        //: end
    }
    //: each r ROWS
    sums[($ru * 16u + local.y) * 16u + lane] = sum_$r;
    //: end
    workgroupBarrier();
    finish(group.x * 16u + lane, first_row, local.y, lane);
}
