fn store(output: u32, row: u32, sum: f32) {
    if output < p.outputs && row < p.rows {
        let at = p.first + output;
        if p.has_bias != 0u {
            y[row * p.stride + at] = sum + bias[at];
        } else {
            y[row * p.stride + at] = sum;
        }
    }
}
