//! Attention against plain sums in f64, and its bits against themselves.

mod normed;
mod plain;

use self::plain::{Plain, angles, bits, close, tolerance, width};
use super::*;
use crate::{
    VisualSpans,
    attention::{AttentionProbe, Mask},
    gpu::testing::{gpu_or_skip, noise},
};

/// A sequence of one layer: attention, cache, stream.
struct Sequence {
    gpu: Gpu,
    attention: Attention,
    cache: Cache,
    stream: Stream,
    rotate: bool,
    /// Weights of the norms of queries and keys.
    norms: Option<[Buffer; 2]>,
}

/// Added to the mean square of a head.
const EPS: f32 = 1e-3;

const SHAPE: AttentionShape = AttentionShape { heads: 6, kv_heads: 2, head_dim: 16 };

impl Sequence {
    fn new(gpu: &Gpu, shape: AttentionShape, kind: KvType, rotate: bool) -> Self {
        Self {
            attention: Attention::new(gpu, shape, kind).unwrap(),
            cache: Cache::new(gpu, 1, shape.kv_heads, shape.head_dim, 40, kind),
            stream: gpu.stream(),
            gpu: gpu.clone(),
            rotate,
            norms: None,
        }
    }

    /// Rows of queries, keys and values at these positions; what attention gives for each.
    fn pass(&mut self, qkv: &[f32], positions: &[usize], mask: &Mask, gaze: Option<&mut Gaze>) -> Vec<f32> {
        let shape = self.attention.shape;
        let (rows, before) = (positions.len(), self.cache.len());
        assert_eq!(qkv.len(), rows * width(shape));
        let qkv = Rows::upload(&self.gpu, qkv, width(shape)).unwrap();
        let tables: Vec<f32> = positions.iter().flat_map(|at| angles(*at, shape.head_dim)).collect();
        let tables = self.gpu.upload(bytemuck::cast_slice(&tables)).unwrap();
        let Self { attention, cache, stream, norms, .. } = self;
        cache.prepare(stream, rows).unwrap();
        attention.begin(stream, Visible::new(mask, before, rows)).unwrap();
        match norms {
            None => attention.store(stream, &qkv, self.rotate.then_some(&tables), cache, 0).unwrap(),
            Some([queries, keys]) => {
                let norms = NormedHeads { weights: [queries, keys], eps: EPS };
                attention.store_normed(stream, &qkv, &tables, norms, cache, 0).unwrap();
            }
        }
        let mut out = Rows::default();
        attention.attend(stream, &qkv, cache, 0, &mut out, gaze).unwrap();
        cache.advance(rows);
        stream.read_values(out.buffer().unwrap(), 0, rows * shape.heads * shape.head_dim).unwrap()
    }
}

/// Queries, keys and values of rows; the queries are large enough that some tokens weigh much more than others.
fn rows(shape: AttentionShape, seed: usize, count: usize) -> Vec<f32> {
    noise(seed, count * width(shape)).into_iter().map(|v| v * 3.0).collect()
}

#[test]
fn attention_is_that_of_the_textbook() {
    let Some(gpu) = gpu_or_skip() else { return };
    for (heads, kv_heads, head_dim) in
        [(6, 2, 16), (7, 1, 128), (2, 2, 80), (3, 3, 72), (2, 1, 256), (4, 4, 8), (2, 1, 136)]
    {
        let shape = AttentionShape { heads, kv_heads, head_dim };
        for kind in KvType::ALL {
            let (mut ours, mut plain) =
                (Sequence::new(&gpu, shape, kind, true), Plain::new(shape, kind, true));
            for (seed, (before, count)) in [(0, 130), (130, 9), (139, 1)].into_iter().enumerate() {
                let rows = rows(shape, seed, count);
                let positions: Vec<usize> = (before..before + count).collect();
                let got = ours.pass(&rows, &positions, &Mask::Causal, None);
                let (_, want) = plain.pass(&rows, &positions, &|r| (0..=before + r).collect());
                close(&got, &want, tolerance(kind), &format!("{shape:?} {kind:?} {before}"));
            }
        }
    }
}

#[test]
fn a_row_has_the_same_bits_whatever_rows_are_beside_it() {
    let Some(gpu) = gpu_or_skip() else { return };
    for (shape, kind) in [
        (SHAPE, KvType::F32),
        (AttentionShape { heads: 7, kv_heads: 1, head_dim: 64 }, KvType::F16),
        (AttentionShape { heads: 2, kv_heads: 2, head_dim: 128 }, KvType::F16),
        (AttentionShape { heads: 3, kv_heads: 1, head_dim: 80 }, KvType::Q8_0),
    ] {
        let prompt = rows(shape, 1, 380);
        let new = rows(shape, 2, 64);
        let run = |parts: &[usize], limit: u64| {
            let mut sequence = Sequence::new(&gpu, shape, kind, true);
            sequence.attention.limit = limit;
            let all: Vec<f32> = prompt.iter().chain(&new).copied().collect();
            let (mut at, mut out) = (0, Vec::new());
            for part in parts {
                let values = &all[at * width(shape)..(at + part) * width(shape)];
                let positions: Vec<usize> = (at..at + part).collect();
                out.extend(bits(&sequence.pass(values, &positions, &Mask::Causal, None)));
                at += part;
            }
            out
        };
        let together = run(&[380, 64], RECORDS);
        assert_eq!(together, run(&[444], RECORDS));
        assert_eq!(together, run(&[380, 64], 1 << 14));
        assert_eq!(together, run(&[100, 3, 277, 1, 1, 2, 6, 11, 43], RECORDS));
        let mut single = vec![370];
        single.resize(75, 1);
        assert_eq!(together, run(&single, RECORDS));
    }
}

#[test]
fn a_tree_node_has_the_bits_of_a_chain() {
    let Some(gpu) = gpu_or_skip() else { return };
    // The root is the first row; the tree crosses a span.
    let paths: Vec<Vec<usize>> =
        vec![vec![0], vec![0, 1], vec![0, 2], vec![0, 1, 3], vec![0, 2, 4], vec![0, 2, 4, 5]];
    for kind in KvType::ALL {
        for before in [5, 120, 125, 127, 128, 300] {
            let prompt = rows(SHAPE, 3, before);
            let tree = rows(SHAPE, 4, paths.len());
            let positions: Vec<usize> = (0..before).collect();
            let mut sequence = Sequence::new(&gpu, SHAPE, kind, true);
            sequence.pass(&prompt, &positions, &Mask::Causal, None);
            let depths: Vec<usize> = paths.iter().map(|path| before + path.len() - 1).collect();
            let mask = Mask::Paths { shared: before, paths: paths.clone() };
            let nodes = sequence.pass(&tree, &depths, &mask, None);
            let (size, out) = (width(SHAPE), SHAPE.heads * SHAPE.head_dim);
            for (node, path) in paths.iter().enumerate() {
                let mut chain = Sequence::new(&gpu, SHAPE, kind, true);
                chain.pass(&prompt, &positions, &Mask::Causal, None);
                let rows: Vec<f32> =
                    path.iter().flat_map(|r| &tree[r * size..(r + 1) * size]).copied().collect();
                let depths: Vec<usize> = (before..before + path.len()).collect();
                let want = chain.pass(&rows, &depths, &Mask::Causal, None);
                assert_eq!(
                    bits(&nodes[node * out..(node + 1) * out]),
                    bits(&want[want.len() - out..]),
                    "{kind:?} {before} node {node}"
                );
                if node + 1 == paths.len() {
                    // The path is kept: what follows it has the bits of what follows the chain.
                    sequence.cache.keep(before, path);
                    let next = super::tests::rows(SHAPE, 5, 3);
                    let depths: Vec<usize> = (before + path.len()..before + path.len() + 3).collect();
                    let ours = sequence.pass(&next, &depths, &Mask::Causal, None);
                    assert_eq!(bits(&ours), bits(&chain.pass(&next, &depths, &Mask::Causal, None)));
                }
            }
        }
    }
}

#[test]
fn a_tree_of_several_passes_is_that_of_the_textbook() {
    let Some(gpu) = gpu_or_skip() else { return };
    let (mut ours, mut plain) =
        (Sequence::new(&gpu, SHAPE, KvType::F32, true), Plain::new(SHAPE, KvType::F32, true));
    let positions: Vec<usize> = (0..250).collect();
    let prompt = rows(SHAPE, 1, 250);
    ours.pass(&prompt, &positions, &Mask::Causal, None);
    plain.pass(&prompt, &positions, &|r| (0..=r).collect());
    let levels = [vec![vec![0], vec![1]], vec![vec![0, 2], vec![1, 3], vec![1, 4]], vec![vec![1, 4, 5]]];
    for (depth, paths) in levels.into_iter().enumerate() {
        let rows = rows(SHAPE, 9 + depth, paths.len());
        let depths = vec![250 + depth; paths.len()];
        let mask = Mask::Paths { shared: 250, paths: paths.clone() };
        let got = ours.pass(&rows, &depths, &mask, None);
        let visible = |r: usize| (0..250).chain(paths[r].iter().map(|slot| 250 + slot)).collect();
        close(&got, &plain.pass(&rows, &depths, &visible).1, 2e-5, "tree");
    }
}

#[test]
fn long_sequences_are_attended_to() {
    let Some(gpu) = gpu_or_skip() else { return };
    for kind in KvType::ALL {
        let shape = AttentionShape { heads: 2, kv_heads: 1, head_dim: 16 };
        let (mut ours, mut plain) = (Sequence::new(&gpu, shape, kind, false), Plain::new(shape, kind, false));
        let prompt = rows(shape, 1, 5000);
        let positions: Vec<usize> = (0..5000).collect();
        ours.pass(&prompt, &positions, &Mask::Causal, None);
        plain.pass(&prompt, &positions, &|_| vec![0]);
        let new = rows(shape, 2, 3);
        let got = ours.pass(&new, &[0; 3], &Mask::Causal, None);
        let (_, want) = plain.pass(&new, &[0; 3], &|r| (0..=5000 + r).collect());
        close(&got, &want, tolerance(kind), "long");
        assert!(ours.cache.bytes() >= 5003 * 2 * kind.head_bytes(16));
    }
}

#[test]
fn patches_attend_to_their_window() {
    let Some(gpu) = gpu_or_skip() else { return };
    for (head_dim, windows) in [(80, vec![64, 64, 32, 7]), (16, vec![300, 5]), (72, vec![1; 9])] {
        let shape = AttentionShape { heads: 3, kv_heads: 3, head_dim };
        let count: usize = windows.iter().sum();
        let values = rows(shape, 3, count);
        let qkv = Rows::upload(&gpu, &values, width(shape)).unwrap();
        let run = |limit: u64, windows: &[usize]| {
            let (mut stream, mut cache) =
                (gpu.stream(), Cache::new(&gpu, 1, 3, head_dim, count, KvType::F32));
            let mut attention = Attention::new(&gpu, shape, KvType::F32).unwrap();
            attention.limit = limit;
            cache.prepare(&mut stream, count).unwrap();
            attention.begin(&mut stream, Visible::windows(windows.iter().copied())).unwrap();
            attention.store(&mut stream, &qkv, None, &cache, 0).unwrap();
            // Wider rows, as the next matrix may need; their rest is left alone.
            let mut out = Rows::default();
            out.reserve(&gpu, count, 3 * head_dim + 8).unwrap();
            attention.attend(&mut stream, &qkv, &cache, 0, &mut out, None).unwrap();
            let rows: Vec<f32> = stream.read_values(out.buffer().unwrap(), 0, count * out.width()).unwrap();
            assert!(rows.chunks(out.width()).all(|row| row[3 * head_dim..] == [0.0; 8]));
            rows.chunks(out.width()).flat_map(|row| row[..3 * head_dim].to_vec()).collect::<Vec<f32>>()
        };
        let got = run(RECORDS, &windows);
        assert_eq!(bits(&got), bits(&run(1 << 12, &windows)));
        let window = |r: usize| {
            let (mut at, mut own) = (0, 0..0);
            for length in &windows {
                if (at..at + length).contains(&r) {
                    own = at..at + length;
                }
                at += length;
            }
            own.collect()
        };
        let mut plain = Plain::new(shape, KvType::F32, false);
        close(&got, &plain.pass(&values, &vec![0; count], &window).1, 2e-5, "windows");
    }
}

#[test]
fn weights_on_measured_slots_are_summed() {
    let Some(gpu) = gpu_or_skip() else { return };
    for by_head in [false, true] {
        let spans = VisualSpans::new([3..40, 100..133], 200).unwrap();
        let probe = AttentionProbe { spans: spans.clone(), by_head };
        let mut gaze = Gaze::new(&gpu, &probe, 2, 400).unwrap();
        let (mut ours, mut plain) =
            (Sequence::new(&gpu, SHAPE, KvType::F32, true), Plain::new(SHAPE, KvType::F32, true));
        let prompt = rows(SHAPE, 1, 200);
        let positions: Vec<usize> = (0..200).collect();
        ours.attention.limit = 1 << 15;
        ours.pass(&prompt, &positions, &Mask::Causal, None);
        plain.pass(&prompt, &positions, &|r| (0..=r).collect());
        for (pass, mask) in
            [Mask::Causal, Mask::Paths { shared: 211, paths: vec![vec![0], vec![0, 1], vec![0, 2]] }]
                .into_iter()
                .enumerate()
        {
            let count = mask.rows().unwrap_or(11);
            let new = rows(SHAPE, 2 + pass, count);
            gaze.begin();
            let before = ours.cache.len();
            let at: Vec<usize> = (before..before + count).collect();
            // The two layers are equal.
            ours.pass(&new, &at, &mask, Some(&mut gaze));
            ours.cache.truncate(before);
            ours.pass(&new, &at, &mask, Some(&mut gaze));
            let visible = |r: usize| match &mask {
                Mask::Causal => (0..=before + r).collect(),
                Mask::Paths { shared, paths } => {
                    (0..*shared).chain(paths[r].iter().map(|s| shared + s)).collect()
                }
            };
            let (weights, _) = plain.pass(&new, &at, &visible);
            let stats = gaze.read(&mut ours.stream).unwrap();
            let peak = |heads: &Vec<Vec<f64>>| {
                let peaks = heads.iter().map(|w| spans.rows().map(|slot| w[slot]).fold(0.0, f64::max));
                peaks.sum::<f64>() / heads.len() as f64
            };
            close(&stats.peaks, &weights.iter().map(peak).collect::<Vec<f64>>(), 1e-5, "peaks");
            if by_head {
                let sum = |kv: usize, slot: usize| {
                    let heads = weights.iter().flat_map(|heads| &heads[kv * 3..kv * 3 + 3]);
                    heads.map(|w| w[slot]).sum::<f64>()
                };
                let layer: Vec<f64> = (0..2)
                    .flat_map(|kv| spans.rows().map(move |slot| (kv, slot)))
                    .map(|(kv, slot)| sum(kv, slot))
                    .collect();
                close(&stats.by_head, &[layer.clone(), layer].concat(), 1e-4, "by head");
            } else {
                assert!(stats.by_head.is_empty());
            }
        }
    }
}

#[test]
fn shapes_that_the_kernels_do_not_compute_are_refused() {
    let Some(gpu) = gpu_or_skip() else { return };
    for (heads, kv_heads, head_dim) in [(4, 3, 16), (4, 0, 16), (4, 4, 12), (4, 4, 264), (1, 1, 0)] {
        assert!(Attention::new(&gpu, AttentionShape { heads, kv_heads, head_dim }, KvType::F32).is_err());
    }
    let attention = Attention::new(&gpu, SHAPE, KvType::F32).unwrap();
    let mut stream = gpu.stream();
    let cache = Cache::new(&gpu, 1, 1, 16, 10, KvType::F32);
    assert!(attention.store(&mut stream, &Rows::default(), None, &cache, 0).is_err());
}
