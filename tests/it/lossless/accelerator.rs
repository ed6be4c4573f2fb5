//! Lossless methods on tensors, as on an accelerator: the same text as autoregressive decoding there, but where two tokens are all
//! but equally likely. Such places are counted and shown as near-ties. candle's CPU backend takes the place of the accelerator.

use candle_core::Device;
use specreel_tensor::{ComputeDevice, WeightType};

use super::{GREEDY, part_of_speculative, speculative, support::Bench};

/// How often methods parted from autoregressive decoding, and how far apart the two tokens were at most.
#[derive(Debug, Default)]
struct Partings {
    runs: usize,
    parted: usize,
    widest: f32,
    accepted: usize,
    rejected: usize,
}

/// One of `of` parts of all methods, which the clip chooses.
fn partings(target: &str, small: &str, dtype: WeightType, clip: u64, of: usize) -> Partings {
    let device = ComputeDevice::tensors(Device::Cpu, "tensors", dtype);
    let mut bench = Bench::on(target, small, &device, clip);
    let plain = bench.plain(GREEDY, 33);
    let mut partings = Partings::default();
    for method in part_of_speculative(clip as usize, of) {
        let fast = bench.write(&method, GREEDY, 33);
        partings.runs += 1;
        partings.accepted += fast.accepted;
        partings.rejected += fast.judged - fast.accepted;
        if fast.ids == plain.ids {
            assert_eq!(fast.finished, plain.finished, "{}", method.describe());
            continue;
        }
        let at = fast.ids.iter().zip(&plain.ids).take_while(|(a, b)| a == b).count();
        let next = [plain.ids.get(at).copied(), fast.ids.get(at).copied()];
        let gap = bench.gap(&plain.ids[..at], next).abs();
        println!("{target} {dtype:?} {}: parted at {at}, {gap} nats", method.describe());
        partings.parted += 1;
        partings.widest = partings.widest.max(gap);
    }
    partings
}

#[test]
fn in_f32_texts_part_at_near_ties_only() {
    let mut runs = 0;
    for (clip, (target, small)) in
        [("gqa_tied", "nested_bf16"), ("sharded_untied", "gqa_tied"), ("llava_ov", "llava_ov_newer")]
            .into_iter()
            .enumerate()
    {
        let partings = partings(target, small, WeightType::F32, clip as u64, 3);
        assert!(partings.widest <= 1e-3, "{partings:?}");
        assert!(partings.parted * 20 <= partings.runs, "{partings:?}");
        assert!(partings.accepted > 150 && partings.rejected > 500, "{partings:?}");
        runs += partings.runs;
    }
    assert_eq!(runs, speculative().len());
}

#[test]
fn in_bf16_they_part_where_rounding_explains_it() {
    let partings = partings("gqa_tied", "nested_bf16", WeightType::Bf16, 1, 3);
    assert!(partings.widest <= 0.5, "{partings:?}");
    assert!(partings.accepted > 150, "{partings:?}");
}

#[test]
fn in_blocks_too() {
    let partings = partings("gqa_tied", "nested_bf16", WeightType::Q8_0, 0, 5);
    assert!(partings.widest <= 0.01 && partings.parted * 20 <= partings.runs, "{partings:?}");
    assert!(partings.accepted > 100, "{partings:?}");
}
