// f16: a block of 32 inputs is four parts of eight values.
@group(0) @binding(next) var<storage, read> values: array<vec4<u32>>;

struct Eight { low: vec4<f32>, high: vec4<f32> }

fn eight(part: u32, lane: u32) -> Eight {
    let bits = values[part * 16u + lane];
    return Eight(
        vec4(unpack2x16float(bits.x), unpack2x16float(bits.y)),
        vec4(unpack2x16float(bits.z), unpack2x16float(bits.w)),
    );
}
