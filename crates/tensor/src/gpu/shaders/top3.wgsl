// The three largest values, descending, and one more.
fn insert(top: vec3<f32>, value: f32) -> vec3<f32> {
    if (value > top.x) {
        return vec3<f32>(value, top.xy);
    }
    if (value > top.y) {
        return vec3<f32>(top.x, value, top.y);
    }
    return vec3<f32>(top.xy, max(top.z, value));
}
