//! Tensor names of the other families, and inconsistent checkpoints.

use std::{fs, ops::ControlFlow, path::Path};

use candle_core::{Device, Tensor};
use serde_json::{Value, json};
use specreel_checkpoint::Checkpoint;
use specreel_model::{
    family::{ClipFacts, Rope, VideoLlm, VlConfig},
    processor::VisualGrid,
    vision::Tower,
};
use specreel_record::{Failure, FailureClass};
use specreel_tensor::{ComputeDevice, WeightType};

use super::{FAMILIES, NEWER, copy, difference, fixture, patches};

fn load(dir: &Path) -> Result<VideoLlm, Failure> {
    Ok(VideoLlm::load(dir, WeightType::F32, &mut |_, _| {})?)
}

fn llava(name: &str) -> Tower {
    let dir = fixture(name);
    let config = VlConfig::read(&dir).unwrap().tower().unwrap();
    let device = ComputeDevice::tensors(Device::Cpu, "tensors", WeightType::F32);
    Tower::load(&Checkpoint::open(&dir).unwrap(), &config, &device).unwrap()
}

fn edit(dir: &Path, file: &str, change: impl FnOnce(&mut Value)) {
    let path = dir.join(file);
    let mut value: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    change(&mut value);
    fs::write(path, value.to_string()).unwrap();
}

fn rename(path: &Path, to: impl Fn(&str) -> String) {
    let all = candle_core::safetensors::load(path, &candle_core::Device::Cpu).unwrap();
    let renamed: std::collections::HashMap<String, Tensor> =
        all.into_iter().map(|(name, tensor)| (to(&name), tensor)).collect();
    candle_core::safetensors::save(&renamed, path).unwrap();
}

/// The newest version leaves a component out of the tower's names and writes the others as first published.
#[test]
fn weights_are_found_in_every_layout() {
    let dir = copy("llava_ov_newer");
    rename(&dir.path().join("model.safetensors"), |name| {
        let name =
            name.replace("vision_model.", "").replace("model.language_model.", "language_model.model.");
        name.strip_prefix("model.").unwrap_or(&name).to_owned()
    });
    let (ours, theirs) = (load(&fixture("llava_ov_newer")).unwrap(), load(dir.path()).unwrap());
    let ids = [3u32, 99, 300, 7];
    assert_eq!(difference(&ours.decoder().embed(&ids).unwrap(), &theirs.decoder().embed(&ids).unwrap()), 0.0);
    let dir = copy("qwen2_vl");
    rename(&dir.path().join("model.safetensors"), |name| match name.strip_prefix("model.") {
        Some(rest) => format!("model.language_model.{rest}"),
        None => format!("model.{name}"),
    });
    assert_eq!(load(dir.path()).unwrap().family().name, "Qwen2-VL");
}

fn refused(dir: &Path, words: &[&str]) {
    let failure = load(dir).map(|_| ()).unwrap_err();
    assert_eq!(failure.class, FailureClass::Input, "{failure:?}");
    assert!(failure.hint.is_some());
    for word in words {
        assert!(failure.error.contains(word), "lacks {word}: {}", failure.error);
    }
}

#[test]
fn inconsistent_checkpoints_are_refused() {
    // A checkpoint, a place in one of its files, a value instead of the one there, and words of the refusal.
    for (name, file, place, value, words) in [
        ("qwen2_vl", "config", "vision_config", json!(null), &["vision_config"][..]),
        ("llava_ov", "config", "vision_config", json!(null), &["vision_config"]),
        ("llava_ov", "config", "text_config", json!(null), &["hidden_size"]),
        (
            "qwen2_vl",
            "config",
            "model_type",
            json!("qwen9_vl"),
            &["qwen9_vl", "qwen3_5", "qwen3_vl", "smolvlm", "llava_onevision"],
        ),
        ("qwen2_vl", "config", "vision_config/hidden_size", json!(96), &["output width", "96", "64"]),
        ("qwen2_vl", "config", "vision_config/embed_dim", json!(48), &["tower", "shape"]),
        ("qwen2_vl", "config", "vision_config/patch_size", json!(16), &["patch size", "16", "14"]),
        ("qwen2_vl", "preprocessor_config", "merge_size", json!(4), &["merge size"]),
        ("qwen2_vl", "config", "model_type", json!("qwen2_5_vl"), &["vision_config"]),
        ("llava_ov", "config", "vision_config/hidden_size", json!(48), &["tower", "shape"]),
        ("llava_ov", "config", "vision_config/image_size", json!(90), &["picture", "90", "76"]),
        ("llava_ov", "config", "vision_feature_layer", json!(-2), &["vision_feature_layer"]),
        ("llava_ov", "config", "video_token_index", json!(7000), &["out of range"]),
        ("llava_ov", "video_preprocessor_config", "size", json!({"shortest_edge": 384}), &["size", "0x0"]),
        (
            "minicpmv4_6",
            "processor_config",
            "video_processor/downsample_mode",
            json!("4x"),
            &["downsample_mode", "is 4, expected 2"],
        ),
        (
            "minicpmv4_6",
            "processor_config",
            "video_processor/stack_frames",
            json!(2),
            &["stack_frames = 2", "not stacked"],
        ),
        (
            "qwen3_vl_moe",
            "config",
            "text_config/num_experts",
            json!(16),
            &["mlp.gate.weight", "expected shape [16, 64] (from config.json), got [8, 64]"],
        ),
        (
            "qwen3_vl_moe",
            "config",
            "text_config/num_experts_per_tok",
            json!(9),
            &["`num_experts_per_tok` is 9, expected 1 to 8"],
        ),
        (
            "qwen3_5_moe_untied",
            "config",
            "text_config/moe_intermediate_size",
            json!(32),
            &["mlp.experts.0.gate_proj.weight", "expected shape [32, 32]"],
        ),
    ] {
        let dir = copy(name);
        edit(dir.path(), &format!("{file}.json"), |whole| {
            let (parent, key) = place.rsplit_once('/').unwrap_or(("", place));
            let parent = if parent.is_empty() { whole } else { &mut whole[parent] };
            match value {
                Value::Null => drop(parent.as_object_mut().unwrap().remove(key).unwrap()),
                value => parent[key] = value,
            }
        });
        refused(dir.path(), words);
    }
    // Sizes that are consistent with each other, but not with the weights.
    let dir = copy("llava_ov");
    edit(dir.path(), "config.json", |c| c["vision_config"]["image_size"] = json!(90));
    edit(dir.path(), "video_preprocessor_config.json", |c| c["size"] = json!({"height": 90, "width": 90}));
    refused(dir.path(), &["position_embedding"]);
}

#[test]
fn missing_tensors_are_named() {
    for missing in
        ["image_newline", "multi_modal_projector.linear_1.weight", "vision_tower.vision_model.embeddings"]
    {
        let dir = copy("llava_ov_newer");
        rename(&dir.path().join("model.safetensors"), |name| match name.contains(missing) {
            true => format!("elsewhere.{name}"),
            false => name.to_owned(),
        });
        refused(dir.path(), &["tower"]);
    }
}

#[test]
fn experts_that_are_not_whole_are_named() {
    for (name, missing, words) in [
        ("qwen3_vl_moe", "layers.2.mlp.gate.weight", "layers.2.mlp.gate.weight`: not in the weight files"),
        ("qwen3_vl_moe", "layers.0.mlp.experts.down_proj", "layers.0.mlp.experts.down_proj`: missing"),
        ("qwen3_5_moe", "layers.1.mlp.shared_expert_gate.weight", "shared_expert_gate.weight`: not in the"),
    ] {
        let dir = copy(name);
        rename(&dir.path().join("model.safetensors"), |name| name.replace(missing, "elsewhere"));
        refused(dir.path(), &[words]);
    }
    // Experts that are narrower after the activation than before.
    let dir = copy("qwen3_vl_moe");
    let path = dir.path().join("model.safetensors");
    let mut all = candle_core::safetensors::load(&path, &Device::Cpu).unwrap();
    let name = "model.language_model.layers.3.mlp.experts.down_proj";
    let narrow = all[name].narrow(1, 0, 64).unwrap().contiguous().unwrap();
    all.insert(name.to_owned(), narrow);
    candle_core::safetensors::save(&all, &path).unwrap();
    refused(dir.path(), &["layers.3.mlp.experts.gate_up_proj", "[8, 64, 192] does not fit [8, 64, 64]"]);
}

#[test]
fn positions_can_be_chosen() {
    let clip = ClipFacts::steady(VisualGrid { t: 2, h: 2, w: 2 }, 4, 2.0);
    for name in FAMILIES.into_iter().chain(NEWER).chain(["gqa_tied"]) {
        let model = load(&fixture(name)).unwrap();
        let one_axis = ["llava_onevision", "smolvlm", "minicpmv4_6"].contains(&model.family().model_type);
        let own = model.prompt("x", &clip).unwrap();
        assert_eq!(own.next as usize == own.ids.len(), one_axis, "{name}");
        let model = model.with_rope(Rope::Sequential).unwrap();
        let plain = model.prompt("x", &clip).unwrap();
        assert_eq!((plain.ids.len(), plain.next as usize), (own.ids.len(), own.ids.len()));
        assert_eq!(plain.positions.axes[0], plain.positions.axes[2]);
        match model.with_rope(Rope::Mrope) {
            Ok(model) => assert_eq!(model.prompt("x", &clip).unwrap().positions, own.positions),
            Err(error) => {
                assert!(one_axis);
                assert_eq!(Failure::from(error).class, FailureClass::Usage);
            }
        }
    }
}

/// Two sizes of one family pad their embeddings differently; the tokenizer has the true vocabulary.
#[test]
fn padded_vocabularies_are_compared_without_padding() {
    for (large, small) in [
        ("llava_ov", "llava_ov_newer"),
        ("qwen2_vl", "qwen2_vl_nested"),
        ("qwen3_vl", "qwen3_vl_small"),
        ("smolvlm", "smolvlm_untied"),
        ("qwen3_5", "qwen3_5_untied"),
        ("qwen3_5_moe", "qwen3_5_untied"),
        ("minicpmv4_6", "minicpmv4_6_4x"),
    ] {
        let [large, small] = [large, small].map(|name| load(&fixture(name)).unwrap());
        assert_ne!(large.decoder().config().vocab, small.decoder().config().vocab);
        large.tokenizer().same_vocabulary(small.tokenizer()).unwrap();
        assert!(large.tokenizer().vocabulary() < large.decoder().config().vocab);
        let alike = large.processor().config().cuts_like(small.processor().config());
        // One of them makes a visual token of 16 patches, the other of four.
        assert_eq!(alike, large.family().name != "MiniCPM-V 4.6");
    }
}

/// The newline has its own embedding, with or without a video.
#[test]
fn the_newline_has_its_own_row() {
    let model = load(&fixture("llava_ov")).unwrap();
    let (patches, tower) = (patches("llava_ov"), llava("llava_ov"));
    let visual = model.encode(&patches, &mut |_, _| ControlFlow::Continue(())).unwrap();
    let grid = model.processor().visual_grid(patches.grid).unwrap();
    let prompt = model.prompt("x", &ClipFacts::steady(grid, grid.t, 1.0)).unwrap();
    let at = prompt.visual.end();
    assert_eq!(prompt.newline, Some(at));
    for (visual, rows) in [(Some(&visual), [at - 1, at, at + 1]), (None, [0, at, at + 1])] {
        let embeddings = model.embed(&prompt, visual, &rows).unwrap();
        assert_eq!(difference(&embeddings.narrow(1, 1).unwrap(), tower.newline().unwrap()), 0.0);
    }
    // Neither rows outside of the prompt nor another clip's embeddings are accepted.
    assert!(model.embed(&prompt, Some(&visual), &[prompt.ids.len()]).is_err());
    let fewer = visual.narrow(0, visual.rows() - 1).unwrap();
    assert!(model.embed(&prompt, Some(&fewer), &[at - 2]).is_err());
}
