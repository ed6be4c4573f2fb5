// What the kernels of linear attention share: sizes, and where values stand.
//
// A bank is a state, `value_heads × key_dim × value_dim`, and then the `kernel - 1` rows under the convolution, the oldest first.
// A place of the log is a row that entered the convolution, its normed keys, its update (`value_heads × value_dim`) and its decays.
// A prepared row is its queries, keys and values, and then for each value head the decay and the rate.
const NONE: u32 = 0xffffffffu;

struct Params {
    rows: u32,
    // Values of a row that enters.
    width: u32,
    key_heads: u32,
    value_heads: u32,
    key_dim: u32,
    value_dim: u32,
    kernel: u32,
    tiled: u32,
    // Places to replay at the beginning, which are the first of the table.
    replayed: u32,
    // Where in the table are: the places of the rows, the sources of the rows under the convolution of each row, of those before
    // the pass and of those after it; for each row of a tree where its ancestors are and how many, NONE for a chain.
    places: u32,
    windows: u32,
    before: u32,
    after: u32,
    branches: u32,
    // The first values of banks: to start with, to settle, and to end with; or NONE.
    begins: u32,
    settled: u32,
    current: u32,
    eps: f32,
}

@group(0) @binding(0) var<uniform> p: Params;

fn keys() -> u32 {
    return p.key_heads * p.key_dim;
}

fn values() -> u32 {
    return p.value_heads * p.value_dim;
}

fn channels() -> u32 {
    return 2u * keys() + values();
}

// Values of a place in the log.
fn logged() -> u32 {
    return channels() + keys() + values() + p.value_heads;
}

// Values of a prepared row.
fn prepared_width() -> u32 {
    return channels() + 2u * p.value_heads;
}

// The rows under the convolution in a bank.
fn held() -> u32 {
    return p.value_heads * p.key_dim * p.value_dim;
}

fn key_head(head: u32) -> u32 {
    if (p.tiled == 1u) {
        return head % p.key_heads;
    }
    return head / (p.value_heads / p.key_heads);
}
