// bf16: a block of 32 inputs is four parts of eight values.
@group(0) @binding(next) var<storage, read> values: array<vec4<u32>>;

struct Eight { low: vec4<f32>, high: vec4<f32> }

fn eight(part: u32, lane: u32) -> Eight {
    let bits = values[part * 16u + lane];
    let even = bitcast<vec4<f32>>(bits << vec4(16u));
    let odd = bitcast<vec4<f32>>(bits & vec4(0xffff0000u));
    return Eight(vec4(even.x, odd.x, even.y, odd.y), vec4(even.z, odd.z, even.w, odd.w));
}
