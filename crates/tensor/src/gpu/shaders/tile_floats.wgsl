// Many rows, weights in floats: as for blocks, 16 inputs at a time.
@group(0) @binding(next) var<storage, read> x: array<vec4<f32>>;
//: if EXPERTS
@group(0) @binding(next) var<storage, read> plan: array<u32>;
//: else
@group(0) @binding(next) var<storage, read> bias: array<f32>;
//: end
@group(0) @binding(next) var<storage, read_write> y: array<f32>;

// Four inputs, panel, lane.
var<workgroup> weights: array<vec4<f32>, 256>;
// Row, four inputs.
var<workgroup> inputs: array<vec4<f32>, 64 * ROWS>;

@compute @workgroup_size(16, 16)
fn main(
    // Tiles of rows first: workgroups that run at the same time read the same weights.
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_id) local: vec3<u32>,
    @builtin(local_invocation_index) index: u32,
) {
    //: if EXPERTS
    if plan[3u * group.x + 2u] == 0u {
        return;
    }
    begin(group.x);
    let first_row = 0u;
    //: else
    let first_row = group.x * 16u * ROWSu;
    //: end
    let first_panel = group.y * 4u;
    // The first half of the invocations fetches weights, the second inputs.
    let fetches_weights = index < 128u;
    let lane = index % 16u;
    let part = (index / 16u) % 2u;
    let weights_from = weights_of(first_panel + index / 32u) * 4u + part;
    let weights_to = part * 128u + index / 32u * 16u + lane;
    let t = index % 128u;
    let inputs_from = inputs_of(first_row + t / 2u) * 8u + t % 2u * 2u;
    //: each i 4
    //: each j ROWS
    var sum_$i_$j = 0.0;
    //: end
    //: end
    for (var first = 0u; first < p.blocks; first += p.chunk) {
        let end = 2u * min(first + p.chunk, p.blocks);
        //: each i 4
        //: each j ROWS
        var part_$i_$j = 0.0;
        //: end
        //: end
        for (var half = 2u * first; half < end; half += 1u) {
            if fetches_weights {
                let w = eight(weights_from + 2u * half, lane);
                weights[weights_to] = w.low;
                weights[weights_to + 64u] = w.high;
            } else if t < 32u * ROWSu {
                inputs[2u * t] = x[inputs_from + 4u * half];
                inputs[2u * t + 1u] = x[inputs_from + 4u * half + 1u];
            }
            workgroupBarrier();
            for (var q = 0u; q < 4u; q += 1u) {
                //: each i 4
                let w_$i = weights[q * 64u + 16u * $iu + local.x];
                //: end
                //: each j ROWS
                let x_$j = inputs[(16u * $ju + local.y) * 4u + q];
                //: each i 4
                part_$i_$j = add4(w_$i, x_$j, part_$i_$j);
                //: end
                //: end
            }
            workgroupBarrier();
        }
        //: each i 4
        //: each j ROWS
        sum_$i_$j += part_$i_$j;
        //: end
        //: end
    }
    //: each i 4
    //: each j ROWS
    put((first_panel + $iu) * 16u + local.x, first_row + 16u * $ju + local.y, sum_$i_$j);
    //: end
    //: end
}
