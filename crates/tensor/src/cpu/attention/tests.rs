use super::*;
use crate::{KvType, VisualSpans};

/// Values between -1 and 1.
fn noise(n: usize, seed: u32) -> Vec<f32> {
    let hash = |i: usize| (i as u32 ^ seed << 24).wrapping_mul(0x9e37_79b1);
    let mixed = (0..n).map(|i| (hash(i) ^ hash(i) >> 15).wrapping_mul(0x85eb_ca77));
    mixed.map(|v| v as f32 / u32::MAX as f32 * 2.0 - 1.0).collect()
}

/// Keys, values and queries of one layer.
struct Layer {
    shape: AttentionShape,
    window: Option<usize>,
    keys: Vec<f32>,
    values: Vec<f32>,
    queries: Vec<f32>,
}

impl Layer {
    fn new(heads: usize, kv_heads: usize, head_dim: usize, slots: usize) -> Self {
        let shape = AttentionShape { heads, kv_heads, head_dim };
        let row = |heads: usize, seed| noise(slots * heads * head_dim, seed);
        let queries = row(heads, 3).into_iter().map(|v| 3.0 * v).collect();
        Self { shape, window: None, keys: row(kv_heads, 1), values: row(kv_heads, 2), queries }
    }

    fn row(values: &[f32], width: usize, slot: usize) -> &[f32] {
        &values[slot * width..][..width]
    }

    fn query(&self, slot: usize) -> &[f32] {
        Self::row(&self.queries, self.shape.heads * self.shape.head_dim, slot)
    }

    fn cache(&self, kind: KvType) -> CpuCache {
        CpuCache::new(1, self.shape.kv_heads, self.shape.head_dim, 16, kind)
    }

    /// Write `rows` rows to a cache, after those in use: keys and values of these slots.
    fn write(&self, cache: &mut CpuCache, rows: usize, slot: impl Fn(usize) -> usize) {
        let width = self.shape.kv_heads * self.shape.head_dim;
        cache.reserve(rows);
        cache.write(0, rows, |r| {
            (Self::row(&self.keys, width, slot(r)), Self::row(&self.values, width, slot(r)))
        });
    }

    /// Attention of rows that are written, with the queries of these slots.
    fn attend(
        &self,
        cache: &CpuCache,
        rows: usize,
        mask: &Mask,
        slot: impl Fn(usize) -> usize + Sync,
        probe: Option<(&AttentionProbe, &mut ProbedLayer)>,
    ) -> Vec<f32> {
        let mut out = vec![0f32; rows * self.shape.heads * self.shape.head_dim];
        attend(
            cache,
            0,
            self.shape,
            rows,
            (mask, self.window),
            &|r| self.query(slot(r)),
            &mut out,
            None,
            probe,
        );
        out
    }

    /// A prompt of so many slots, in chunks.
    fn prompt(&self, cache: &mut CpuCache, slots: usize, chunk: usize) -> Vec<f32> {
        let mut out = Vec::new();
        while cache.len() < slots {
            let (start, rows) = (cache.len(), chunk.min(slots - cache.len()));
            self.write(cache, rows, |r| start + r);
            out.extend(self.attend(cache, rows, &Mask::Causal, |r| start + r, None));
            cache.advance(rows);
        }
        out
    }

    /// Attention of one head in f64.
    fn exact(&self, slot: usize, head: usize) -> Vec<f64> {
        let AttentionShape { heads, kv_heads, head_dim: d } = self.shape;
        let at = |values: &[f32], slot: usize, i: usize| {
            f64::from(values[(slot * kv_heads + head / (heads / kv_heads)) * d + i])
        };
        let query = &self.query(slot)[head * d..][..d];
        let score = |other: usize| {
            let terms = query.iter().enumerate().map(|(i, q)| f64::from(*q) * at(&self.keys, other, i));
            terms.sum::<f64>() / (d as f64).sqrt()
        };
        let first = self.window.map_or(0, |window| (slot + 1).saturating_sub(window));
        let weight = |other: usize| if other < first { 0.0 } else { score(other).exp() };
        let weights: Vec<f64> = (0..=slot).map(weight).collect();
        let total: f64 = weights.iter().sum();
        let value =
            |i| weights.iter().enumerate().map(|(s, w)| w * at(&self.values, s, i)).sum::<f64>() / total;
        (0..d).map(value).collect()
    }
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}

/// Shapes with heads that are whole blocks, whole vectors, and neither.
const SHAPES: [(usize, usize, usize); 4] = [(4, 2, 64), (7, 1, 32), (2, 1, 80), (2, 2, 20)];
/// Windows within a segment, of several, and wider than all.
const WINDOWS: [Option<usize>; 5] = [None, Some(1), Some(37), Some(SEGMENT + 5), Some(1 << 20)];

#[test]
fn a_prompt_gives_the_same_bits_in_chunks_of_any_size() {
    for kind in KvType::ALL {
        for (heads, kv_heads, d) in SHAPES {
            let slots = 2 * SEGMENT + 77;
            for window in WINDOWS {
                let layer = Layer { window, ..Layer::new(heads, kv_heads, d, slots) };
                let whole = bits(&layer.prompt(&mut layer.cache(kind), slots, slots));
                for chunk in [1, 3, 50, SEGMENT - 1] {
                    let chunked = layer.prompt(&mut layer.cache(kind), slots, chunk);
                    assert!(bits(&chunked) == whole, "{kind:?} {heads} {d} {window:?}: chunks of {chunk}");
                }
            }
        }
    }
}

#[test]
fn a_path_of_a_tree_has_the_bits_of_a_chain() {
    for kind in KvType::ALL {
        for ((heads, kv_heads, d), window) in SHAPES.into_iter().zip(WINDOWS).chain([(SHAPES[0], Some(20))]) {
            let (length, slots) = (30, 2 * SEGMENT + 40);
            let layer = Layer { window, ..Layer::new(heads, kv_heads, d, slots) };
            let chain = layer.prompt(&mut layer.cache(kind), slots, 100);
            for shared in [0, 5, SEGMENT - 17, SEGMENT - 1, SEGMENT, SEGMENT + 3, 2 * SEGMENT - 29] {
                let mut cache = layer.cache(kind);
                layer.write(&mut cache, shared, |r| r);
                cache.advance(shared);
                // Nodes alternate between the chain and branches of its nodes; the first ones were fed before.
                let (nodes, before) = (2 * length, 7);
                let slot = |node: usize| if node.is_multiple_of(2) { shared + node / 2 } else { 3 };
                layer.write(&mut cache, before, slot);
                cache.advance(before);
                layer.write(&mut cache, nodes - before, |r| slot(before + r));
                let path = |node: usize| {
                    let above = (0..node.div_ceil(2)).map(|i| 2 * i);
                    above.chain([node]).collect::<Vec<_>>()
                };
                let paths = (before..nodes).map(path).collect();
                let mask = Mask::Paths { shared, paths };
                let own = |r: usize| shared + (before + r) / 2;
                let tree = layer.attend(&cache, nodes - before, &mask, own, None);
                let width = heads * d;
                for r in (0..nodes - before).filter(|r| (before + r).is_multiple_of(2)) {
                    let (got, want) = (&tree[r * width..][..width], &chain[own(r) * width..][..width]);
                    assert!(bits(got) == bits(want), "{kind:?} {heads} {d}: node {r} after {shared}");
                }
            }
        }
    }
}

#[test]
fn long_prompts_match_f64_arithmetic() {
    let slots = 20_000;
    let layer = Layer::new(2, 1, 64, slots);
    for kind in KvType::ALL {
        let mut cache = layer.cache(kind);
        layer.write(&mut cache, slots - 2, |r| r);
        cache.advance(slots - 2);
        layer.write(&mut cache, 2, |r| slots - 2 + r);
        let got = layer.attend(&cache, 2, &Mask::Causal, |r| slots - 2 + r, None);
        let want: Vec<f64> = (0..4).flat_map(|n| layer.exact(slots - 2 + n / 2, n % 2)).collect();
        let largest = want.iter().fold(0f64, |largest, v| largest.max(v.abs()));
        let worst = got.iter().zip(&want).map(|(a, b)| (f64::from(*a) - b).abs()).fold(0.0, f64::max);
        let tolerance = match kind {
            KvType::F32 | KvType::Auto => 1e-5,
            KvType::F16 => 1e-3,
            KvType::Q8_0 => 2e-2,
        };
        assert!(worst < tolerance * largest, "{kind:?}: {worst} of {largest}");
    }
}

/// The weights of a row sum to 1, regardless of its peaks along the way.
#[test]
fn probed_weights_are_those_of_the_whole_softmax() {
    let slots = 3 * SEGMENT + 5;
    let mut layer = Layer::new(2, 1, 32, slots);
    // The largest score is in the last segment but one.
    let far = 2 * SEGMENT + 9;
    let query = layer.query(slots - 1)[..32].to_vec();
    layer.keys[far * 32..][..32].copy_from_slice(&query);
    for kind in KvType::ALL {
        let mut cache = layer.cache(kind);
        layer.write(&mut cache, slots - 1, |r| r);
        cache.advance(slots - 1);
        layer.write(&mut cache, 1, |_| slots - 1);
        let spans = VisualSpans::new(std::iter::once(0..slots), slots).unwrap();
        let probe = AttentionProbe { spans, by_head: true };
        let mut probed = ProbedLayer::default();
        layer.attend(&cache, 1, &Mask::Causal, |_| slots - 1, Some((&probe, &mut probed)));
        for (head, weights) in probed.weights.chunks_exact(slots).enumerate() {
            let sum: f64 = weights.iter().map(|w| f64::from(*w)).sum();
            assert!((sum - 1.0).abs() < 1e-4, "{kind:?}: {sum}");
            assert_eq!(weights.iter().copied().fold(0.0, f32::max), probed.peaks[head]);
        }
        let largest = probed.weights[..slots].iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
        assert_eq!(largest.map(|(slot, _)| slot), Some(far), "{kind:?}");
    }
}

#[test]
fn what_is_not_a_number_is_not_hidden() {
    let slots = SEGMENT + 20;
    for kind in KvType::ALL {
        for bad in [f32::NAN, f32::INFINITY] {
            let mut layer = Layer::new(2, 1, 32, slots);
            layer.values[(SEGMENT + 3) * 32 + 4] = bad;
            let out = layer.prompt(&mut layer.cache(kind), slots, slots);
            let row = |slot: usize| &out[slot * 64..][..64];
            assert!(row(SEGMENT - 40).iter().all(|v| v.is_finite()), "{kind:?} {bad}");
            assert!(row(slots - 1).iter().any(|v| !v.is_finite()), "{kind:?} {bad}");
        }
    }
}
