//! Norms of queries and keys in each head.

use super::*;

/// A sequence that norms with random weights, and the weights.
fn normed(gpu: &Gpu, shape: AttentionShape, kind: KvType) -> (Sequence, [Vec<f32>; 2]) {
    let weights = [11, 12].map(|seed| noise(seed, shape.head_dim));
    let norms = weights.each_ref().map(|values| gpu.upload(bytemuck::cast_slice(values)).unwrap());
    (Sequence { norms: Some(norms), ..Sequence::new(gpu, shape, kind, true) }, weights)
}

/// The rows with queries and keys normed in f64.
fn by_hand(qkv: &[f32], shape: AttentionShape, weights: &[Vec<f32>; 2]) -> Vec<f32> {
    let heads = qkv.chunks(shape.head_dim).enumerate();
    let normed = heads.flat_map(|(at, head)| {
        let weight = match at % (shape.heads + 2 * shape.kv_heads) {
            head if head < shape.heads => Some(&weights[0]),
            head if head < shape.heads + shape.kv_heads => Some(&weights[1]),
            _ => None,
        };
        let square = head.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>() / head.len() as f64;
        let scale = 1.0 / (square + f64::from(EPS)).sqrt();
        let value = move |i: usize| weight.map_or(head[i], |w| (f64::from(head[i]) * scale) as f32 * w[i]);
        (0..head.len()).map(value)
    });
    normed.collect()
}

#[test]
fn queries_and_keys_are_normed_before_they_are_rotated() {
    let Some(gpu) = gpu_or_skip() else { return };
    for (heads, kv_heads, head_dim) in
        [(6, 2, 16), (7, 1, 128), (2, 2, 80), (3, 3, 72), (2, 1, 256), (4, 4, 8), (2, 1, 136), (32, 8, 128)]
    {
        let shape = AttentionShape { heads, kv_heads, head_dim };
        for kind in KvType::ALL {
            let (mut ours, weights) = normed(&gpu, shape, kind);
            let mut plain = Plain::new(shape, kind, true);
            for (seed, (before, count)) in [(0, 33), (33, 6), (39, 1)].into_iter().enumerate() {
                let rows = rows(shape, seed, count);
                let positions: Vec<usize> = (before..before + count).collect();
                let got = ours.pass(&rows, &positions, &Mask::Causal, None);
                let rows = by_hand(&rows, shape, &weights);
                let (_, want) = plain.pass(&rows, &positions, &|r| (0..=before + r).collect());
                close(&got, &want, tolerance(kind), &format!("{shape:?} {kind:?} {before}"));
            }
        }
    }
}

#[test]
fn a_normed_row_has_the_same_bits_whatever_rows_are_beside_it() {
    let Some(gpu) = gpu_or_skip() else { return };
    for (heads, kv_heads, head_dim, kind) in [
        (6, 2, 16, KvType::F16),
        (3, 1, 128, KvType::F16),
        (2, 2, 80, KvType::F16),
        (2, 1, 128, KvType::Q8_0),
    ] {
        let shape = AttentionShape { heads, kv_heads, head_dim };
        let all = rows(shape, 1, 64);
        let run = |parts: &[usize]| {
            let (mut sequence, _) = normed(&gpu, shape, kind);
            let (mut at, mut out) = (0, Vec::new());
            for part in parts {
                let values = &all[at * width(shape)..(at + part) * width(shape)];
                let positions: Vec<usize> = (at..at + part).collect();
                out.extend(bits(&sequence.pass(values, &positions, &Mask::Causal, None)));
                at += part;
            }
            out
        };
        let together = run(&[64]);
        assert_eq!(together, run(&[1; 64]));
        assert_eq!(together, run(&[2, 6, 11, 45]));
    }
}

#[test]
fn norms_of_another_width_are_refused() {
    let Some(gpu) = gpu_or_skip() else { return };
    let (mut sequence, _) = normed(&gpu, SHAPE, KvType::F32);
    let qkv = Rows::upload(&gpu, &rows(SHAPE, 1, 1), width(SHAPE)).unwrap();
    let (short, angles) = (gpu.buffer(60).unwrap(), gpu.buffer(64).unwrap());
    let Sequence { attention, cache, stream, .. } = &mut sequence;
    cache.prepare(stream, 1).unwrap();
    attention.begin(stream, Visible::new(&Mask::Causal, 0, 1)).unwrap();
    let norms = NormedHeads { weights: [&angles, &short], eps: EPS };
    let refused = attention.store_normed(stream, &qkv, &angles, norms, cache, 0).unwrap_err().to_string();
    assert!(refused.contains("fewer than 16 weights"), "{refused}");
}
