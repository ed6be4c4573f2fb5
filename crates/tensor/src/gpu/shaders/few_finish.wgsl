// Add the chunks of one output and row, in their order, and store it. The 16 groups of lanes take the rows in turn.
fn finish(output: u32, first_row: u32, turn: u32, lane: u32) {
    let chunks = (p.blocks + p.chunk - 1u) / p.chunk;
    for (var r = turn; r < ROWSu; r += 16u) {
        var sum = 0.0;
        for (var c = 0u; c < chunks; c += 1u) {
            sum += sums[(r * 16u + c) * 16u + lane];
        }
        put(output, first_row + r, sum);
    }
}
