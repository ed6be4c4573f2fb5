//! A target's own layer for multi-token prediction against PyTorch (`make_mtp_fixture.py`).

use std::path::Path;

use specreel_checkpoint::Checkpoint;
use specreel_model::{
    decoder::{Pass, Positions, Sequence, States, argmax},
    draft_head::{DraftHead, Recipe, mtp},
    family::VideoLlm,
};
use specreel_tensor::WeightType;

use super::{devices, fixture, load_on, numbers, states, tensors, values};

const TARGET: &str = "qwen3_5";

/// The target's directory with the layer in a file of its own beside the others, as an index names them.
fn published(dir: &Path) {
    for entry in std::fs::read_dir(fixture(TARGET)).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), dir.join(entry.file_name())).unwrap();
    }
    std::fs::copy(fixture("mtp/mtp.safetensors"), dir.join("mtp.safetensors")).unwrap();
    let mut names = serde_json::Map::new();
    for file in ["model.safetensors", "mtp.safetensors"] {
        let bytes = std::fs::read(dir.join(file)).unwrap();
        let header = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        let header: serde_json::Value = serde_json::from_slice(&bytes[8..header]).unwrap();
        let tensors = header.as_object().unwrap().keys().filter(|name| *name != "__metadata__");
        names.extend(tensors.map(|name| (name.clone(), file.into())));
    }
    let index = serde_json::json!({ "weight_map": names });
    std::fs::write(dir.join("model.safetensors.index.json"), index.to_string()).unwrap();
}

fn far(got: &[f32], want: &[f32]) -> f32 {
    assert_eq!(got.len(), want.len());
    got.iter().zip(want).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

#[test]
fn the_layer_computes_what_torch_computes() {
    let dir = tempfile::tempdir().unwrap();
    published(dir.path());
    let reference = tensors("mtp/reference.safetensors");
    let positions = numbers(&reference["positions"]);
    let axis = |a: usize| {
        let rows = positions.len() / 3;
        positions[a * rows..(a + 1) * rows].iter().map(|n| *n as u32).collect::<Vec<_>>()
    };
    let positions = Positions { axes: [axis(0), axis(1), axis(2)] };
    let drafted: Vec<u32> = numbers(&reference["drafted"]).into_iter().map(|n| n as u32).collect();
    let (logits, chain) = (values(&reference["logits"]), values(&reference["chain"]));
    let vocab = logits.len() / positions.axes[0].len();
    let peak = logits.iter().fold(0f32, |peak, value| peak.max(value.abs()));
    for device in devices(WeightType::F32) {
        let target = load_on(dir.path().to_str().unwrap(), &device);
        let checkpoint = Checkpoint::open(dir.path()).unwrap();
        assert!(mtp::is_in(&checkpoint) && !mtp::is_in(&Checkpoint::open(&fixture(TARGET)).unwrap()));
        let head = DraftHead::own(checkpoint, target.decoder(), "own").unwrap();
        assert_eq!((head.config().recipe, head.reads_all_rows(), head.taps().len()), (Recipe::Mtp, true, 0));
        let before = head.reduce(&states(&reference["states"])).unwrap().to_vec().unwrap();
        let rows = head.fuse_embedded(&states(&reference["embeddings"]), &before).unwrap();
        let next = positions.axes[0][rows.rows() - 1] + 1;
        let mut sequence = Sequence::new(head.decoder().clone(), 20);
        let (mut outs, mut own) = (Vec::new(), Vec::new());
        let mut keep = |_: usize, pass: &Pass| {
            outs.push(pass.states.clone());
            own = head.own_states(pass).narrow(pass.states.rows() - 1, 1)?.to_vec()?;
            Ok(())
        };
        let going = &mut |_, _| std::ops::ControlFlow::Continue(());
        assert!(
            sequence.prefill_tapped(&rows, &positions, next, &head.own_taps(), &mut keep, going).unwrap()
        );
        let got = sequence.logits(&States::cat(&outs).unwrap()).unwrap().to_vec().unwrap();
        let worst = far(&got, &logits) / peak;
        println!("{}: {worst}", device.name());
        assert!(worst < 2e-5, "{}: {worst}", device.name());

        // A chain on its own outputs.
        let mut row = got[got.len() - vocab..].to_vec();
        for (step, &wanted) in drafted.iter().enumerate() {
            let worst = far(&row, &chain[step * vocab..][..vocab]) / peak;
            assert!(worst < 2e-5, "{} {step}: {worst}", device.name());
            let id = argmax(&row);
            assert_eq!(id, wanted);
            let pass = sequence.feed_input(&head.fuse(&[id], &own).unwrap(), &head.own_taps()).unwrap();
            own = head.own_states(&pass).to_vec().unwrap();
            row = sequence.logits(&pass.states).unwrap().to_vec().unwrap();
        }
    }
}

/// Rows are computed alike however many stand beside each other.
#[test]
fn a_row_does_not_depend_on_the_others() {
    let reference = tensors("mtp/reference.safetensors");
    let (embeddings, before) = (states(&reference["embeddings"]), states(&reference["states"]));
    for dtype in [WeightType::F32, WeightType::Q8_0] {
        let target = VideoLlm::load(&fixture(TARGET), dtype, &mut |_, _| {}).unwrap();
        let dir = tempfile::tempdir().unwrap();
        std::fs::copy(fixture("mtp/mtp.safetensors"), dir.path().join("model.safetensors")).unwrap();
        let checkpoint = Checkpoint::open(dir.path()).unwrap();
        let head = DraftHead::own(checkpoint, target.decoder(), "own").unwrap();
        let run = |size: usize| {
            let mut sequence = Sequence::new(head.decoder().clone(), 20);
            let mut bits = Vec::new();
            for first in (0..embeddings.rows()).step_by(size) {
                let count = size.min(embeddings.rows() - first);
                let before = before.narrow(first, count).unwrap().to_vec().unwrap();
                let rows = head.fuse_embedded(&embeddings.narrow(first, count).unwrap(), &before).unwrap();
                let pass = sequence.feed_input(&rows, &head.own_taps()).unwrap();
                let logits = sequence.logits(&pass.states).unwrap().to_vec().unwrap();
                bits.extend(logits.into_iter().map(f32::to_bits));
            }
            bits
        };
        let whole = run(14);
        assert!([1, 2, 5].into_iter().all(|size| run(size) == whole), "{dtype:?}");
    }
}

#[test]
fn layers_that_are_not_whole_or_have_more_are_refused() {
    let target = VideoLlm::load(&fixture(TARGET), WeightType::F32, &mut |_, _| {}).unwrap();
    let bytes = std::fs::read(fixture("mtp/mtp.safetensors")).unwrap();
    // Another name of the same length for one tensor.
    let refused = |from: &str, to: &str| {
        assert_eq!(from.len(), to.len());
        let at = bytes.windows(from.len()).position(|part| part == from.as_bytes()).unwrap();
        let mut changed = bytes.clone();
        changed[at..at + to.len()].copy_from_slice(to.as_bytes());
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("model.safetensors"), changed).unwrap();
        let checkpoint = Checkpoint::open(dir.path()).unwrap();
        DraftHead::own(checkpoint, target.decoder(), "own").err().unwrap().to_string()
    };
    let error = refused("mtp.norm.weight", "mtp.morn.weight");
    assert!(error.contains("mtp.norm.weight") && error.contains("not in the weight files"), "{error}");
    let error = refused("mtp.layers.0.mlp.up_proj.weight", "mtp.layers.1.mlp.up_proj.weight");
    assert!(error.contains("two layers"), "{error}");
    let other = VideoLlm::load(&fixture("qwen3_vl"), WeightType::F32, &mut |_, _| {}).unwrap();
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("model.safetensors"), &bytes).unwrap();
    let checkpoint = Checkpoint::open(dir.path()).unwrap();
    let error = DraftHead::own(checkpoint, other.decoder(), "own").err().unwrap().to_string();
    assert!(error.contains("expected shape"), "{error}");
}
