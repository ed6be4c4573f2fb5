//! Numbers to measure and to test with.

/// Numbers between -1 and 1 that look random.
pub fn noise(seed: usize, count: usize) -> Vec<f32> {
    let value = |i: usize| {
        let mut x = (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
            ^ (seed as u64 + 7).wrapping_mul(0xd1b5_4a32_d192_ed03);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((x ^ (x >> 31)) >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..count).map(value).collect()
}
