//! An EAGLE-3 head in the published layout against PyTorch.

use std::{collections::HashMap, ops::ControlFlow};

use candle_core::Tensor;
use specreel_model::{
    decoder::{Pass, Positions, Sequence, States, argmax},
    draft_head::{DraftHead, DraftHeadConfig, Recipe},
    family::VideoLlm,
};
use specreel_tensor::WeightType;

use super::{devices, fixture, load_on, numbers, states, tensors, values};

pub fn far(got: &[f32], want: &[f32]) -> f32 {
    assert_eq!(got.len(), want.len());
    got.iter().zip(want).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

/// A head reads its reference's rows, whose states have this name, and drafts a chain on its own outputs as PyTorch does, all
/// logits within the bound.
pub fn drafts_as_torch(
    head: &DraftHead,
    reference: &HashMap<String, Tensor>,
    read: &str,
    bound: f32,
    device: &str,
) {
    let all = numbers(&reference["positions"]);
    let axis = |a: usize| all[a * all.len() / 3..(a + 1) * all.len() / 3].iter().map(|n| *n as u32).collect();
    let positions = Positions { axes: [axis(0), axis(1), axis(2)] };
    let (logits, chain) = (values(&reference["logits"]), values(&reference["chain"]));
    let before = head.reduce(&states(&reference[read])).unwrap();
    let rows = head.fuse_embedded(&states(&reference["embeddings"]), &before).unwrap();
    let (next, vocab) = (positions.axes[0][rows.rows() - 1] + 1, logits.len() / rows.rows());
    let mut sequence = Sequence::new(head.decoder().clone(), 20);
    let (mut outs, mut own) = (Vec::new(), before.clone());
    let mut keep = |_: usize, pass: &Pass| {
        outs.push(pass.states.clone());
        own = head.own_states(pass)?.narrow(pass.states.rows() - 1, 1)?;
        Ok(())
    };
    let going = &mut |_, _| ControlFlow::Continue(());
    assert!(sequence.prefill_tapped(&rows, &positions, next, &head.own_taps(), &mut keep, going).unwrap());
    let got = sequence.logits(&States::cat(&outs).unwrap()).unwrap().to_vec().unwrap();
    let worst = far(&got, &logits);
    assert!(worst < bound, "{device}: {worst}");

    let mut row = got[got.len() - vocab..].to_vec();
    for (step, wanted) in numbers(&reference["drafted"]).into_iter().enumerate() {
        let worst = far(&row, &chain[step * vocab..][..vocab]);
        assert!(worst < bound, "{device} {step}: {worst}");
        let best = argmax(&row);
        let id = head.vocabulary().map_or(best, |vocabulary| vocabulary.id(best));
        assert_eq!(i64::from(id), wanted);
        let pass = sequence.feed_input(&head.fuse(&[id], &own).unwrap(), &head.own_taps()).unwrap();
        own = head.own_states(&pass).unwrap();
        row = sequence.logits(&pass.states).unwrap().to_vec().unwrap();
    }
}

/// Rows have the same bits in passes of any size.
pub fn rows_stand_alone(
    head: &DraftHead,
    reference: &HashMap<String, Tensor>,
    read: &str,
    dtype: WeightType,
) {
    let (embeddings, read) = (states(&reference["embeddings"]), states(&reference[read]));
    let run = |size: usize| {
        let mut sequence = Sequence::new(head.decoder().clone(), 20);
        let mut bits = [Vec::new(), Vec::new()];
        for first in (0..embeddings.rows()).step_by(size) {
            let count = size.min(embeddings.rows() - first);
            let before = head.reduce(&read.narrow(first, count).unwrap()).unwrap();
            let rows = head.fuse_embedded(&embeddings.narrow(first, count).unwrap(), &before).unwrap();
            let pass = sequence.feed_input(&rows, &head.own_taps()).unwrap();
            let logits = sequence.logits(&pass.states).unwrap().to_vec().unwrap();
            bits[0].extend(logits.into_iter().map(f32::to_bits));
            bits[1].extend(head.own_states(&pass).unwrap().to_vec().unwrap().into_iter().map(f32::to_bits));
        }
        bits
    };
    let whole = run(14);
    assert!([1, 2, 5].into_iter().all(|size| run(size) == whole), "{dtype:?}");
}

#[test]
fn the_head_computes_what_torch_computes() {
    let reference = tensors("eagle3/reference.safetensors");
    for device in devices(WeightType::F32) {
        let target = load_on("gqa_untied_f16", &device);
        for layout in ["eagle3", "eagle3_speculators"] {
            let head = DraftHead::load(&fixture(layout), target.decoder()).unwrap();
            assert_eq!((head.taps(), head.config().recipe), (&[0, 1, 2][..], Recipe::Eagle3));
            assert!(head.vocabulary().is_some());
            drafts_as_torch(&head, &reference, "tapped", 2e-4, device.name());
        }
    }
}

/// With norms of the states, two of them, and outputs that are normed before they are read again.
#[test]
fn a_newer_head_computes_what_torch_computes() {
    let reference = tensors("eagle3_1/reference.safetensors");
    for device in devices(WeightType::F32) {
        let target = load_on("gqa_untied_f16", &device);
        let head = DraftHead::load(&fixture("eagle3_1"), target.decoder()).unwrap();
        assert_eq!((head.taps(), head.own_taps().before_norm), (&[0, 2][..], false));
        drafts_as_torch(&head, &reference, "tapped", 2e-4, device.name());
    }
}

#[test]
fn a_row_does_not_depend_on_the_others() {
    for (name, dtype) in
        [("eagle3", WeightType::F32), ("eagle3", WeightType::Q8_0), ("eagle3_1", WeightType::Q8_0)]
    {
        let reference = tensors(&format!("{name}/reference.safetensors"));
        let target = VideoLlm::load(&fixture("gqa_untied_f16"), dtype, &mut |_, _| {}).unwrap();
        let head = DraftHead::load(&fixture(name), target.decoder()).unwrap();
        rows_stand_alone(&head, &reference, "tapped", dtype);
    }
}

#[test]
fn another_target_is_refused() {
    let load = |name: &str| VideoLlm::load(&fixture(name), WeightType::F32, &mut |_, _| {}).unwrap();
    let error = DraftHead::load(&fixture("eagle3"), load("gqa_tied").decoder()).err().unwrap().to_string();
    assert!(error.contains("trained for another target: it expects a `hidden_size` of 96"), "{error}");
    let dir = tempfile::tempdir().unwrap();
    let copy = |name: &str| std::fs::read(fixture("eagle3").join(name)).unwrap();
    std::fs::write(dir.path().join("model.safetensors"), copy("model.safetensors")).unwrap();
    let config = String::from_utf8(copy("config.json")).unwrap();
    let target = load("gqa_untied_f16");
    let refused = |from: &str, to: &str| {
        assert!(config.contains(from));
        std::fs::write(dir.path().join("config.json"), config.replace(from, to)).unwrap();
        assert!(DraftHeadConfig::is_in(dir.path()));
        DraftHead::load(dir.path(), target.decoder()).err().unwrap().to_string()
    };
    let error = refused("\"vocab_size\": 352", "\"vocab_size\": 320");
    assert!(error.contains("a `vocab_size` of 320, this target has 352"), "{error}");
    let error = refused("\"draft_vocab_size\": 96", "\"draft_vocab_size\": 90");
    assert!(error.contains("`d2t` has 96 values, the LM head has 90 rows"), "{error}");
    let error = refused("\"intermediate_size\": 80", "\"intermediate_size\": 81");
    assert!(error.contains("expected shape"), "{error}");
    // The same sizes, other embeddings.
    let mut weights = copy("model.safetensors");
    let header = 8 + u64::from_le_bytes(weights[..8].try_into().unwrap()) as usize;
    let json: serde_json::Value = serde_json::from_slice(&weights[8..header]).unwrap();
    let place = json["embed_tokens.weight"]["data_offsets"].as_array().unwrap().clone();
    let [start, end] = [0, 1].map(|i| header + place[i].as_u64().unwrap() as usize);
    weights[start..end].rotate_left(14);
    std::fs::write(dir.path().join("model.safetensors"), weights).unwrap();
    let error = refused("\"num_hidden_layers\": 1", "\"num_hidden_layers\": 1");
    assert!(error.contains("its embeddings are not this target's"), "{error}");
}
