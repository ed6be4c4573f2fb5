//! Attention in f64, without caches of spans.

use crate::{KvType, attention::AttentionShape};

/// Values of a row of queries, keys and values.
pub fn width(shape: AttentionShape) -> usize {
    (shape.heads + 2 * shape.kv_heads) * shape.head_dim
}

/// Cosines and sines of a position.
pub fn angles(position: usize, head_dim: usize) -> Vec<f32> {
    let angle = |i: usize| position as f32 * 100f32.powf(-(i as f32) / head_dim as f32);
    let half = head_dim / 2;
    (0..half).map(|i| angle(i).cos()).chain((0..half).map(|i| angle(i).sin())).collect()
}

/// The same in f64, with all that was ever fed.
pub struct Plain {
    shape: AttentionShape,
    kind: KvType,
    rotate: bool,
    /// For each slot and key head, keys and values.
    slots: Vec<Vec<[Vec<f64>; 2]>>,
}

impl Plain {
    pub fn new(shape: AttentionShape, kind: KvType, rotate: bool) -> Self {
        Self { shape, kind, rotate, slots: Vec::new() }
    }

    fn rotated(&self, head: &[f32], position: usize) -> Vec<f64> {
        let half = head.len() / 2;
        let angles = angles(position, head.len());
        let wide = |i: usize| f64::from(head[i]);
        let turned = |i: usize| {
            let (c, s) = (f64::from(angles[i % half]), f64::from(angles[half + i % half]));
            if i < half { wide(i) * c - wide(i + half) * s } else { wide(i) * c + wide(i - half) * s }
        };
        (0..head.len()).map(|i| if self.rotate { turned(i) } else { wide(i) }).collect()
    }

    fn held(&self, values: Vec<f64>) -> Vec<f64> {
        match self.kind {
            KvType::F16 => values.into_iter().map(|v| half::f16::from_f64(v).to_f64()).collect(),
            KvType::Q8_0 => values.chunks(32).flat_map(in_bytes).collect(),
            KvType::Auto | KvType::F32 => values,
        }
    }

    /// The softmax weights of each row and head by slot, and what attention gives.
    pub fn pass(
        &mut self,
        qkv: &[f32],
        positions: &[usize],
        visible: &dyn Fn(usize) -> Vec<usize>,
    ) -> (Vec<Vec<Vec<f64>>>, Vec<f64>) {
        let AttentionShape { heads, kv_heads, head_dim: d } = self.shape;
        let rows: Vec<&[f32]> = qkv.chunks(width(self.shape)).collect();
        for (row, position) in rows.iter().zip(positions) {
            let head = |h: usize| &row[h * d..(h + 1) * d];
            let value = |h: usize| head(h).iter().map(|v| f64::from(*v)).collect();
            let slot = (0..kv_heads).map(|h| {
                [self.held(self.rotated(head(heads + h), *position)), self.held(value(heads + kv_heads + h))]
            });
            let slot = slot.collect();
            self.slots.push(slot);
        }
        let (mut all, mut out) = (Vec::new(), Vec::new());
        for (r, (row, position)) in rows.iter().zip(positions).enumerate() {
            let mut by_head = Vec::new();
            for h in 0..heads {
                let q = self.rotated(&row[h * d..(h + 1) * d], *position);
                let kv = h / (heads / kv_heads);
                let mut weights = vec![0.0; self.slots.len()];
                for slot in visible(r) {
                    let keys = &self.slots[slot][kv][0];
                    let score: f64 = keys.iter().zip(&q).map(|(a, b)| a * b).sum::<f64>() / (d as f64).sqrt();
                    weights[slot] = score.exp();
                }
                let sum: f64 = weights.iter().sum();
                weights.iter_mut().for_each(|w| *w /= sum);
                let value =
                    |i: usize| weights.iter().zip(&self.slots).map(|(w, s)| w * s[kv][1][i]).sum::<f64>();
                out.extend((0..d).map(value));
                by_head.push(weights);
            }
            all.push(by_head);
        }
        (all, out)
    }
}

/// A block of values as signed bytes times a scale.
fn in_bytes(block: &[f64]) -> Vec<f64> {
    let scale = block.iter().fold(0.0, |peak: f64, v| peak.max(v.abs())) / 127.0;
    block.iter().map(|v| (v / scale).round_ties_even() * scale).collect()
}

/// What rounding explains at most where keys and values of this type are stored.
pub fn tolerance(kind: KvType) -> f64 {
    match kind {
        KvType::Auto | KvType::F32 => 2e-5,
        KvType::F16 => 5e-3,
        // A value between two bytes can become the other one.
        KvType::Q8_0 => 3e-2,
    }
}

pub fn close(got: &[f32], want: &[f64], tolerance: f64, what: &str) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        assert!((f64::from(*got) - want).abs() < tolerance, "{what}: {got} for {want} at {i}");
    }
}

pub fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}
