use std::collections::HashSet;

use super::*;
use crate::{
    decoder::{AttentionProbe, Sequence},
    family::VlConfig,
    testing::fixture,
};
use specreel_checkpoint::Checkpoint;
use specreel_tensor::{ComputeDevice, VisualSpans, WeightType};

fn load(name: &str, dtype: WeightType) -> Arc<Decoder> {
    let dir = fixture(name);
    let (checkpoint, config) = (Checkpoint::open(&dir).unwrap(), VlConfig::read(&dir).unwrap().text);
    let decoder = Decoder::load(&checkpoint, &config, &ComputeDevice::cpu(dtype), &mut |_, _| {});
    Arc::new(decoder.unwrap())
}

/// Numbers that look random.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// What a text writes: a prompt, then chains and trees with all kinds of taps, of which some rows are dropped again; each pass of the
/// `target` after one of the `drafter`.
fn write(target: &Arc<Decoder>, drafter: &Arc<Decoder>, seed: u64) -> Vec<Vec<f32>> {
    let mut random = Random(seed);
    let mut found = Vec::new();
    let mut texts = [target, drafter].map(|decoder| Sequence::new(decoder.clone(), 32));
    for step in 0..8 + seed as usize % 5 {
        for text in &mut texts {
            let (base, layers) = (text.len(), text.decoder().config().layers);
            let count = if step == 0 { 20 + random.below(30) } else { 1 + random.below(7) } as usize;
            let ids: Vec<u32> = (0..count).map(|_| random.below(64) as u32).collect();
            let spans = VisualSpans::new(Some(3..9 + random.below(4) as usize), 64).unwrap();
            let probe =
                (random.below(3) == 0).then(|| AttentionProbe { spans, by_head: random.below(2) == 0 });
            let after_layers = if random.below(3) == 0 { vec![layers - 1, 0] } else { Vec::new() };
            let taps = Taps { before_norm: random.below(4) == 0, after_layers, probe, layers: None };
            let pass = if step > 0 && count > 2 && random.below(2) == 0 {
                // A root with chains of one node.
                let paths = (0..count).map(|row| if row == 0 { vec![0] } else { vec![0, row] }).collect();
                let depths: Vec<usize> = (0..count).map(|row| usize::from(row > 0)).collect();
                text.feed_tree(&ids, base, &depths, paths, &taps).unwrap()
            } else {
                text.feed(&ids, &taps).unwrap()
            };
            found.push(pass.states.to_vec().unwrap());
            found.push(text.logits(&pass.states).unwrap().to_vec().unwrap());
            found.extend(pass.before_norm.iter().chain(&pass.after_layers).map(|of| of.to_vec().unwrap()));
            found.extend(pass.attention.into_iter().flat_map(|stats| [stats.peaks, stats.by_head]));
            // All kept rows are a chain's.
            text.truncate(base + 1 + random.below(2) as usize * usize::from(step == 0) * (count - 1));
        }
    }
    found
}

/// Enter a group, and go on once it has so many threads.
fn enter_with(group: &Together, count: usize) -> Turn {
    let turn = group.enter();
    while group.0.lock().entered < count as u64 {
        pause();
    }
    turn
}

fn all_at_once(decoders: [&Arc<Decoder>; 2], seeds: &[u64]) -> (Vec<Vec<Vec<f32>>>, Counts) {
    let group = Together::default();
    let texts = thread::scope(|scope| {
        let write = |&seed: &u64| {
            let group = &group;
            scope.spawn(move || {
                let _turn = enter_with(group, seeds.len());
                write(decoders[0], decoders[1], seed)
            })
        };
        let threads: Vec<_> = seeds.iter().map(write).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    (texts, group.counts())
}

#[test]
fn texts_that_are_written_together_are_those_that_are_written_alone() {
    let families = [
        "gqa_tied",
        "qwen3_vl",
        "smolvlm",
        "gemma4",
        "gemma4_plain",
        "qwen3_vl_moe",
        "qwen3_5",
        "qwen3_5_moe",
        "minicpmv4_6",
    ];
    for (number, name) in families.into_iter().enumerate() {
        for dtype in [WeightType::F32, WeightType::Q8_0] {
            let [target, drafter] = [load(name, dtype), load("mha_tied_bf16", dtype)];
            let seeds: Vec<u64> = (1..5).map(|seed| seed + 10 * number as u64).collect();
            let alone: Vec<_> = seeds.iter().map(|&seed| write(&target, &drafter, seed)).collect();
            let (together, counts) = all_at_once([&target, &drafter], &seeds);
            for (text, (alone, together)) in alone.iter().zip(&together).enumerate() {
                assert_eq!(alone.len(), together.len(), "{name} {dtype:?}, text {text}");
                let same = alone.iter().zip(together).all(|(a, b)| {
                    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits())
                });
                assert!(same, "{name} {dtype:?}, text {text}");
            }
            // Texts differ in length, and the last one is alone at its end. Linear attention is not computed together.
            assert_eq!(target.joins(), target.config().linear.is_none(), "{name}");
            assert!(drafter.joins());
            assert!(counts.asked >= 2 * counts.computed, "{name} {dtype:?}: {counts:?}");
        }
    }
}

#[test]
fn a_pass_that_fails_fails_alone() {
    let decoder = load("gqa_tied", WeightType::F32);
    let vocab = decoder.config().vocab as u32;
    let group = Together::default();
    let ends = thread::scope(|scope| {
        let text = |wrong: bool| {
            let (group, decoder) = (&group, &decoder);
            scope.spawn(move || {
                let mut text = Sequence::new(decoder.clone(), 8);
                let _turn = enter_with(group, 3);
                let first = text.feed(&[if wrong { vocab } else { 1 }], &Taps::default()).map(|_| ());
                // Its sequence is as it was, and can go on.
                let then = text.feed(&[2, 3], &Taps::default()).map(|pass| pass.states.rows());
                (first.err().map(|error| error.to_string()), then.unwrap(), text.len())
            })
        };
        [false, true, false].map(text).map(|thread| thread.join().unwrap())
    });
    assert_eq!((ends[0].clone(), ends[2].clone()), ((None, 2, 3), (None, 2, 3)));
    let (error, rows, len) = &ends[1];
    assert!(error.as_ref().is_some_and(|error| error.contains("outside of the vocabulary")), "{error:?}");
    assert_eq!((*rows, *len), (2, 2));
}

#[test]
fn nobody_waits_for_a_thread_that_has_left_or_panicked() {
    let decoder = load("gqa_tied", WeightType::F32);
    let group = Together::default();
    let lengths = thread::scope(|scope| {
        let text = |steps: usize| {
            let (group, decoder) = (&group, &decoder);
            scope.spawn(move || {
                let mut text = Sequence::new(decoder.clone(), 8);
                let _turn = enter_with(group, 3);
                for step in 0..steps {
                    text.feed(&[step as u32], &Taps::default()).unwrap();
                    assert!(steps != 2 || step == 0, "this one ends early");
                }
                text.len()
            })
        };
        [1, 2, 9].map(text).map(|thread| thread.join().ok())
    });
    assert_eq!(lengths, [Some(1), None, Some(9)]);
}

#[test]
fn a_thread_that_pauses_lets_the_others_go_on() {
    let group = Together::default();
    let order = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for number in 0..3 {
            let (group, order) = (&group, &order);
            scope.spawn(move || {
                let _turn = enter_with(group, 3);
                for _ in 0..5 {
                    order.lock().unwrap().push(number);
                    pause();
                }
            });
        }
    });
    let order = order.into_inner().unwrap();
    for round in order[3..12].chunks_exact(3) {
        assert_eq!(round.iter().collect::<HashSet<_>>().len(), 3, "{order:?}");
    }
}
