//! Scores of queries and keys in 8-bit blocks: an exact sum of integers for each block, scaled and added in order.

use super::{
    super::{BLOCK, SIGN, SLOTS},
    Instructions, quantize_chunks, scales_of,
};

/// Queries of `d` values in blocks of up to [`BLOCK`]; the buffers are kept between uses.
#[derive(Default)]
pub struct Queries8 {
    pub d: usize,
    pub quants: Vec<i8>,
    /// One scale for each block.
    pub scales: Vec<f32>,
    /// -128 times the sum of each block, which cancels the offset of the keys.
    pub offsets: Vec<i32>,
}

impl Queries8 {
    /// Quantize queries of `d` values.
    pub fn set(&mut self, d: usize, values: &[f32]) {
        let (count, blocks) = (values.len() / d, scales_of(d));
        self.d = d;
        self.quants.resize(count * d, 0);
        self.scales.resize(count * blocks, 0.0);
        self.offsets.resize(count * blocks, 0);
        for n in 0..count {
            let (quants, blocks) = (&mut self.quants[n * d..][..d], n * blocks..(n + 1) * blocks);
            quantize_chunks(&values[n * d..][..d], quants, &mut self.scales[blocks.clone()]);
            for (offset, quants) in self.offsets[blocks].iter_mut().zip(quants.chunks(BLOCK)) {
                *offset = quants.iter().map(|&q| i32::from(q)).sum::<i32>() * -128;
            }
        }
    }

    pub fn count(&self) -> usize {
        self.quants.len() / self.d.max(1)
    }
}

/// Keys as a cache holds them, see [`super::Held::Q8`].
#[derive(Clone, Copy)]
pub struct Keys8<'a> {
    pub quants: &'a [[u8; 4]],
    pub scales: &'a [f32],
}

impl Instructions {
    /// Scores of some queries with `blocks` blocks of keys, see [`super::Segment::scores`].
    pub fn scores_q8(
        self,
        queries: &Queries8,
        range: std::ops::Range<usize>,
        keys: Keys8<'_>,
        blocks: usize,
        out: &mut [f32],
        stride: usize,
    ) {
        let d = queries.d;
        assert!(range.end <= queries.count(), "the queries are not quantized");
        assert!(keys.quants.len() >= blocks * SLOTS * d / 4);
        assert!(keys.scales.len() >= blocks * SLOTS * scales_of(d));
        // SAFETY: the features were detected, and the assertions bound every access; the caller's bound the output.
        unsafe {
            match self {
                #[cfg(target_arch = "x86_64")]
                Self::Avx512 => super::avx512::scores_q8(queries, range, keys, blocks, out, stride),
                #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
                Self::Vectors(int8) if d.is_multiple_of(BLOCK) => {
                    super::super::int8::scores_q8(int8, queries, range, keys, blocks, out, stride);
                }
                _ => portable(queries, range, keys, blocks, out, stride),
            }
        }
    }
}

fn portable(
    queries: &Queries8,
    range: std::ops::Range<usize>,
    keys: Keys8<'_>,
    blocks: usize,
    out: &mut [f32],
    stride: usize,
) {
    let (words, chunks) = (queries.d / 4, scales_of(queries.d));
    for (row, n) in range.enumerate() {
        let query = queries.quants[n * queries.d..][..queries.d].as_chunks::<4>().0;
        for slot in 0..blocks * SLOTS {
            let (block, lane) = (slot / SLOTS, slot % SLOTS);
            let mut sum = 0f32;
            for (chunk, query) in query.chunks(BLOCK / 4).enumerate() {
                let first = block * words + chunk * BLOCK / 4;
                let keys_of = |word: usize| keys.quants[(first + word) * SLOTS + lane];
                let dot = query.iter().enumerate().fold(0, |dot, (word, four)| {
                    let products = keys_of(word).into_iter().zip(four);
                    dot + products.map(|(k, q)| i32::from((k ^ SIGN) as i8) * i32::from(*q)).sum::<i32>()
                });
                let scale =
                    queries.scales[n * chunks + chunk] * keys.scales[(block * chunks + chunk) * SLOTS + lane];
                sum = (dot as f32).mul_add(scale, sum);
            }
            out[row * stride + slot] = sum;
        }
    }
}
