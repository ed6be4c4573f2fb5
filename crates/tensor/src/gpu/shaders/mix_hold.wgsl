
// Keep the rows under the convolution with the banks that are written; a thread for each channel. A bank is written after the last
// read of it: where the bank to start with is written too, rows only move to the front.
fn hold(bank: u32, sources: u32, channel: u32) {
    if (bank == NONE) {
        return;
    }
    for (var j = 0u; j + 1u < p.kernel; j += 1u) {
        banks[bank + held() + j * channels() + channel] = earlier(table[sources + j], channel);
    }
}

@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x >= channels()) {
        return;
    }
    if (p.begins == p.current) {
        hold(p.settled, p.before, id.x);
        hold(p.current, p.after, id.x);
    } else {
        hold(p.current, p.after, id.x);
        hold(p.settled, p.before, id.x);
    }
}
