//! A target's own layer for multi-token prediction against PyTorch (`make_mtp_fixture.py`).

use specreel_checkpoint::Checkpoint;
use specreel_model::{
    draft_head::{DraftHead, Recipe, mtp},
    family::VideoLlm,
};
use specreel_tensor::WeightType;

use super::{
    copy, devices,
    eagle3::{drafts_as_torch, rows_stand_alone},
    fixture, load_on, tensors, values,
};

const TARGET: &str = "qwen3_5";

/// The target's directory with the layer in a file of its own next to the others, as an index names them.
fn published() -> tempfile::TempDir {
    let copied = copy(TARGET);
    let dir = copied.path();
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
    copied
}

#[test]
fn the_layer_computes_what_torch_computes() {
    let dir = published();
    let reference = tensors("mtp/reference.safetensors");
    let peak = values(&reference["logits"]).iter().fold(0f32, |peak, value| peak.max(value.abs()));
    for device in devices(WeightType::F32) {
        let target = load_on(dir.path().to_str().unwrap(), &device);
        let checkpoint = Checkpoint::open(dir.path()).unwrap();
        assert!(mtp::is_in(&checkpoint) && !mtp::is_in(&Checkpoint::open(&fixture(TARGET)).unwrap()));
        let head = DraftHead::own(checkpoint, target.decoder(), "own").unwrap();
        assert_eq!((head.config().recipe, head.reads_all_rows(), head.taps().len()), (Recipe::Mtp, true, 0));
        drafts_as_torch(&head, &reference, "states", 2e-5 * peak, device.name());
    }
}

#[test]
fn a_row_does_not_depend_on_the_others() {
    let reference = tensors("mtp/reference.safetensors");
    let dir = tempfile::tempdir().unwrap();
    std::fs::copy(fixture("mtp/mtp.safetensors"), dir.path().join("model.safetensors")).unwrap();
    for dtype in [WeightType::F32, WeightType::Q8_0] {
        let target = VideoLlm::load(&fixture(TARGET), dtype, &mut |_, _| {}).unwrap();
        let head = DraftHead::own(Checkpoint::open(dir.path()).unwrap(), target.decoder(), "own").unwrap();
        rows_stand_alone(&head, &reference, "states", dtype);
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
    let error = refused("mtp.layers.0.input_layernorm.weight", "mtp.layers.1.input_layernorm.weight");
    assert!(error.contains("two layers"), "{error}");
    let other = VideoLlm::load(&fixture("qwen3_vl"), WeightType::F32, &mut |_, _| {}).unwrap();
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("model.safetensors"), &bytes).unwrap();
    let checkpoint = Checkpoint::open(dir.path()).unwrap();
    let error = DraftHead::own(checkpoint, other.decoder(), "own").err().unwrap().to_string();
    assert!(error.contains("expected shape"), "{error}");
}
