// Few rows, weights in floats: as for blocks. Inputs are rows of `blocks` blocks of 32 values.
@group(0) @binding(next) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(next) var<storage, read> bias: array<f32>;
@group(0) @binding(next) var<storage, read_write> y: array<f32>;

var<workgroup> sums: array<f32, 256 * ROWS>;

@compute @workgroup_size(16, 16)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_id) local: vec3<u32>) {
    let lane = local.x;
    let first_row = group.y * ROWSu;
    let weights = group.x * p.blocks;
    let end = min((local.y + 1u) * p.chunk, p.blocks);
    //: each r ROWS
    var sum_$r = 0.0;
    let x_$r = (p.row + min(first_row + $ru, p.rows - 1u)) * p.blocks;
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
