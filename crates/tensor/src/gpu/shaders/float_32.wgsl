// f32: a block of 32 inputs is four parts of eight values.
@group(0) @binding(next) var<storage, read> values: array<vec4<f32>>;

struct Eight { low: vec4<f32>, high: vec4<f32> }

fn eight(part: u32, lane: u32) -> Eight {
    let at = part * 32u + lane;
    return Eight(values[at], values[at + 16u]);
}
