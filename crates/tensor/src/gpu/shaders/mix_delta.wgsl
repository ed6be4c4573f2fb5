
// The gated delta rule over the rows of a pass, for 8 value columns of a head in a workgroup. A thread has the state of one
// column in the keys `part`, `part + 16`, …, ROWS of them.
//
// Order of the sums over keys: each thread adds its keys ascending; then the 16 parts are added ascending.
@group(0) @binding(5) var<storage, read_write> out: array<f32>;

alias Strip = array<f32, ROWS>;

const COLUMNS: u32 = 8u;
const PARTS: u32 = 16u;

// Of even rows and of odd rows.
var<workgroup> partial: array<vec4<f32>, 256>;

// The change of the state, in a step and in its replay.
fn turned(state: f32, decay: f32, key: f32, delta: f32) -> f32 {
    return fma(key, delta, state * decay);
}

fn replay(state: ptr<function, Strip>, place: u32, head: u32, column: u32, part: u32) {
    let at = place * logged() + channels();
    let key_at = at + key_head(head) * p.key_dim;
    let delta = journal[at + keys() + head * p.value_dim + column];
    let decay = journal[at + keys() + values() + head];
    for (var j = 0u; j < ROWSu; j += 1u) {
        let i = part + PARTS * j;
        let key = select(0.0, journal[key_at + i], i < p.key_dim);
        (*state)[j] = turned((*state)[j], decay, key, delta);
    }
}

@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let strips = (p.value_dim + COLUMNS - 1u) / COLUMNS;
    let head = group.x / strips;
    let column = group.x % strips * COLUMNS + thread % COLUMNS;
    let part = thread / COLUMNS;
    let live = column < p.value_dim;
    let state_at = head * p.key_dim * p.value_dim + column;
    let key_at = key_head(head) * p.key_dim;

    var state: Strip;
    for (var j = 0u; j < ROWSu; j += 1u) {
        let i = part + PARTS * j;
        state[j] = 0.0;
        if (p.begins != NONE && live && i < p.key_dim) {
            state[j] = banks[p.begins + state_at + i * p.value_dim];
        }
    }
    for (var r = 0u; r < p.replayed; r += 1u) {
        replay(&state, table[r], head, column, part);
    }
    // The state before the pass, for branches that do not continue from the row before them.
    let root = state;
    if (p.settled != NONE && live) {
        for (var j = 0u; j < ROWSu; j += 1u) {
            let i = part + PARTS * j;
            if (i < p.key_dim) {
                banks[p.settled + state_at + i * p.value_dim] = state[j];
            }
        }
    }

    for (var row = 0u; row < p.rows; row += 1u) {
        if (p.branches != NONE) {
            // Updates of earlier rows were logged by other threads.
            storageBarrier();
            let first = table[p.branches + 2u * row];
            if (first != NONE) {
                state = root;
                let count = table[p.branches + 2u * row + 1u];
                for (var a = 0u; a < count; a += 1u) {
                    replay(&state, table[first + a], head, column, part);
                }
            }
        }
        let at = row * prepared_width();
        let decay = source[at + channels() + head];
        let rate = source[at + channels() + p.value_heads + head];
        var key: Strip;
        // What the state has for the key and for the query, and what the key has for the query.
        var seen = vec4(0.0);
        for (var j = 0u; j < ROWSu; j += 1u) {
            let i = part + PARTS * j;
            let here = i < p.key_dim;
            key[j] = select(0.0, source[at + keys() + key_at + i], here);
            let query = select(0.0, source[at + key_at + i], here);
            seen.x = fma(state[j], key[j], seen.x);
            seen.y = fma(state[j], query, seen.y);
            seen.z = fma(key[j], query, seen.z);
        }
        let slots = row % 2u * 128u;
        partial[slots + thread] = seen;
        workgroupBarrier();
        var total = vec4(0.0);
        for (var other = 0u; other < PARTS; other += 1u) {
            total += partial[slots + other * COLUMNS + thread % COLUMNS];
        }
        let value = source[at + 2u * keys() + head * p.value_dim + column];
        let delta = (value - decay * total.x) * rate;
        for (var j = 0u; j < ROWSu; j += 1u) {
            state[j] = turned(state[j], decay, key[j], delta);
        }
        if (part == 0u && live) {
            out[row * values() + head * p.value_dim + column] = fma(total.z, delta, decay * total.y);
            let place = table[p.places + row];
            if (place != NONE) {
                journal[place * logged() + channels() + keys() + head * p.value_dim + column] = delta;
            }
        }
    }
    if (p.current != NONE && live) {
        for (var j = 0u; j < ROWSu; j += 1u) {
            let i = part + PARTS * j;
            if (i < p.key_dim) {
                banks[p.current + state_at + i * p.value_dim] = state[j];
            }
        }
    }
}
