//! Products in fixed point for processors without vectors.

use super::{
    super::{super::SLOTS, Weights},
    FixedKeys, FixedRows, convert,
};

/// The product of two pairs, added to a sum.
fn add_product(sum: i32, a: [i16; 2], b: [i16; 2]) -> i32 {
    let product = |i: usize| i32::from(a[i]) * i32::from(b[i]);
    sum.wrapping_add(product(0)).wrapping_add(product(1))
}

/// See [`super::Instructions::scores_fixed`].
pub fn scores(
    (queries, own): (&[i16], &[f32]),
    d: usize,
    keys: FixedKeys<'_>,
    blocks: usize,
    out: &mut [f32],
    stride: usize,
) {
    let words = d / 2 * SLOTS;
    for (n, own) in own.iter().enumerate() {
        let query = queries[n * d..][..d].as_chunks::<2>().0;
        for slot in 0..blocks * SLOTS {
            let block = &keys.words[slot / SLOTS * words..][..words];
            let column = block.iter().skip(slot % SLOTS).step_by(SLOTS);
            let sum = column.zip(query).fold(0, |sum, (key, query)| add_product(sum, *key, *query));
            out[n * stride + slot] = sum as f32 * (own * keys.scales[slot]);
        }
    }
}

/// See [`super::Instructions::add_weighted_fixed`].
pub fn add_weighted(
    (weights, integers, factors): (Weights<'_>, &[i16], &[f32]),
    values: FixedRows<'_>,
    d: usize,
    out: &mut [f32],
) {
    let pairs = weights.slots.div_ceil(2);
    let mut converted = Vec::new();
    let words = match values {
        FixedRows::Converted(values) => values.words,
        FixedRows::Converting(values) => {
            converted.resize(pairs * d, [0; 2]);
            convert(values, &mut converted);
            &converted
        }
    };
    for (n, out) in out.chunks_exact_mut(d).enumerate() {
        let row = integers[n * weights.stride..][..weights.stride].as_chunks::<2>().0;
        for (column, out) in out.iter_mut().enumerate() {
            let rows = words[column..].iter().step_by(d).take(pairs);
            let sum = rows.zip(row).fold(0, |sum, (value, weight)| add_product(sum, *value, *weight));
            *out = (sum as f32).mul_add(factors[n], *out * weights.keep[n]);
        }
    }
}
