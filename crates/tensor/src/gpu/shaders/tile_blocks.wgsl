// Many rows: bound by arithmetic. A workgroup computes 64 outputs (4 panels) for 16 ROWS rows; weights, widened to bytes, and
// inputs of two blocks stand in workgroup memory. An invocation computes 4 outputs, one of each panel, for ROWS rows: a block of
// weights read from there serves ROWS rows, a block of inputs 4 outputs.
@group(0) @binding(next) var<storage, read> input_quants: array<vec4<u32>>;
@group(0) @binding(next) var<storage, read> input_scales: array<vec2<u32>>;
//: if EXPERTS
@group(0) @binding(next) var<storage, read> plan: array<u32>;
//: else
@group(0) @binding(next) var<storage, read> bias: array<f32>;
//: end
@group(0) @binding(next) var<storage, read_write> y: array<f32>;

// Panel, block, lane.
var<workgroup> weights: array<Block, 128>;
// Row, block.
var<workgroup> inputs: array<Input, 32 * ROWS>;

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
    let weights_from = weights_of(first_panel + index / 32u) + (index / 16u) % 2u;
    let t = index % 128u;
    let inputs_from = inputs_of(first_row + t / 2u) + t % 2u;
    //: each i 4
    //: each j ROWS
    var sum_$i_$j = 0.0;
    //: end
    //: end
    for (var first = 0u; first < p.blocks; first += p.chunk) {
        let end = min(first + p.chunk, p.blocks);
        //: each i 4
        //: each j ROWS
        var part_$i_$j = 0.0;
        //: end
        //: end
        for (var b = first; b < end; b += 2u) {
            if fetches_weights {
                weights[index] = block(weights_from + b, lane);
            } else if t < 32u * ROWSu {
                let at = inputs_from + b;
                let scale = input_scales[at];
                inputs[t] = Input(
                    input_quants[2u * at], input_quants[2u * at + 1u], bitcast<f32>(scale.x), bitcast<i32>(scale.y),
                );
            }
            workgroupBarrier();
            for (var k = 0u; k < 2u; k += 1u) {
                //: each i 4
                let w_$i = weights[(2u * $iu + k) * 16u + local.x];
                //: end
                //: each j ROWS
                let x_$j = inputs[(16u * $ju + local.y) * 2u + k];
                //: each i 4
                part_$i_$j = add(w_$i, x_$j, part_$i_$j);
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
