// What all products share.
//
// y[r][first + o] = Σ_i W[o][i] x[r][i] + bias[first + o], for the `outputs` rows of a piece of the matrix, in panels of 16.
//
// The order of a sum, whatever the kernel and the number of rows: the blocks of 32 inputs are cut into chunks of `chunk` blocks.
// A chunk's blocks are added in ascending order, from 0. The chunks' sums are added in ascending order, from 0. Last the bias.
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

@group(0) @binding(0) var<uniform> p: Params;

fn panels() -> u32 {
    return (p.outputs + 15u) / 16u;
}
