
@group(0) @binding(1) var<storage, read> source: array<f32>;
@group(0) @binding(2) var<storage, read_write> banks: array<f32>;
@group(0) @binding(3) var<storage, read_write> journal: array<f32>;
@group(0) @binding(4) var<storage, read> table: array<u32>;

// A value of a row under the convolution: of the pass, of the log, of the bank to start with, or zero.
fn earlier(code: u32, channel: u32) -> f32 {
    let index = code & 0x3fffffffu;
    let kind = code >> 30u;
    if (kind == 0u) {
        return source[index * p.width + channel];
    }
    if (kind == 1u) {
        return journal[index * logged() + channel];
    }
    if (kind == 2u) {
        return banks[p.begins + held() + index * channels() + channel];
    }
    return 0.0;
}
