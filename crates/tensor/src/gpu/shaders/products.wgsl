// What all products share.
//
// y[r][first + o] = Σ_i W[o][i] x[r][i] + bias[first + o], for the `outputs` rows of a piece of the matrix, in panels of 16.
//
// The order of a sum, whatever the kernel and the number of rows: the blocks of 32 inputs are cut into chunks of `chunk` blocks.
// A chunk's blocks are added in ascending order, from 0. The chunks' sums are added in ascending order, from 0. Last the bias.
// EXPERTS: the matrix is those of all experts below each other, `outputs` of each. The rows of a workgroup are a tile: pairs that take
// one expert (see plan.wgsl). Pair n is computed from row n / fan of x, and is row n of y.
//: if EXPERTS
struct Params {
    // Panels of the piece.
    panels: u32,
    // Blocks of 32 inputs, an even number.
    blocks: u32,
    // Outputs of an expert, a multiple of 16.
    outputs: u32,
    // The first panel of the piece.
    first: u32,
    // Values of a row of `y`.
    stride: u32,
    // Blocks of a chunk, an even number; at most 16 chunks.
    chunk: u32,
    // Where the pairs begin in `plan`.
    order: u32,
    fan: u32,
}
//: else
struct Params {
    rows: u32,
    // Blocks of 32 inputs, an even number.
    blocks: u32,
    outputs: u32,
    first: u32,
    // Values of a row of `y`.
    stride: u32,
    // Blocks of a chunk, an even number; at most 16 chunks.
    chunk: u32,
    has_bias: u32,
    // The first row of `x`.
    row: u32,
}

//: end

@group(0) @binding(0) var<uniform> p: Params;

fn panels() -> u32 {
    return (p.outputs + 15u) / 16u;
}

//: if EXPERTS
// Expert, place of the first pair, number of pairs.
var<private> tile: vec3<u32>;

fn begin(number: u32) {
    tile = vec3(plan[3u * number], plan[3u * number + 1u], plan[3u * number + 2u]);
}

// The number of a panel of the tile's expert in the piece; in another piece it is too large.
fn in_piece(panel: u32) -> u32 {
    return tile.x * panels() + panel - p.first;
}

fn is_used(panel: u32) -> bool {
    return tile.z > 0u && in_piece(panel) < p.panels;
}

fn pair(row: u32) -> u32 {
    return plan[p.order + tile.y + row];
}

// The first block of a panel's weights; of one that is not used, any.
fn weights_of(panel: u32) -> u32 {
    let own = in_piece(min(panel, panels() - 1u));
    return select(0u, own, own < p.panels) * p.blocks;
}

// The first block of a row's inputs.
fn inputs_of(row: u32) -> u32 {
    return pair(min(row, max(tile.z, 1u) - 1u)) / p.fan * p.blocks;
}

fn put(output: u32, row: u32, sum: f32) {
    if row < tile.z && output < p.outputs && is_used(output / 16u) {
        y[pair(row) * p.stride + output] = sum;
    }
}
//: else
fn weights_of(panel: u32) -> u32 {
    return min(panel, panels() - 1u) * p.blocks;
}

fn inputs_of(row: u32) -> u32 {
    return (p.row + min(row, p.rows - 1u)) * p.blocks;
}

fn put(output: u32, row: u32, sum: f32) {
    if output < p.outputs && row < p.rows {
        let at = p.first + output;
        if p.has_bias != 0u {
            y[row * p.stride + at] = sum + bias[at];
        } else {
            y[row * p.stride + at] = sum;
        }
    }
}
//: end
