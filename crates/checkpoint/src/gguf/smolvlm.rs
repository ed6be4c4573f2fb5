//! SmolVLM2 as GGUF: a Llama, and SigLIP with the projector of Idefics3.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    GgufFile,
    family::{Architecture, TowerSizes, required},
    names::{self, NamePair, NamedTensors, RowLayout},
};

pub const SMOLVLM: Architecture = Architecture {
    text: "llama",
    projector: "idefics3",
    model_type: "smolvlm",
    family: "SmolVLM2",
    video_token: "<image>",
    video_key: "image_token_id",
    ends: &["<end_of_utterance>"],
    shared: true,
    output: OUTPUT,
    text_config,
    vision_config,
    text_tensors,
    tower_tensors,
};

const OUTPUT: &str = "mm.model.fc.weight";

const TOWER: [NamePair; 4] = [
    ("v.patch_embd", "vision_model.embeddings.patch_embedding"),
    ("v.position_embd", "vision_model.embeddings.position_embedding"),
    ("v.post_ln", "vision_model.post_layernorm"),
    ("mm.model.fc", "connector.modality_projection.proj"),
];

fn text_config(file: &GgufFile, config: &mut Value) -> Result<(), String> {
    // Llama's base, where a file does not say.
    if config["rope_theta"].is_null() {
        config["rope_theta"] = 10_000.into();
    }
    // Frequencies of their own stretch the context.
    match file.tensors.contains_key("rope_freqs.weight") {
        true => Err("it scales its positions (`rope_freqs.weight`), which is not supported".into()),
        false => Ok(()),
    }
}

fn vision_config(file: &GgufFile) -> Result<Value, String> {
    let TowerSizes { depth, width, ffn, heads, patch, .. } = TowerSizes::read(file, OUTPUT)?;
    Ok(json!({
        "scale_factor": required(file, "clip.vision.projector.scale_factor")?,
        "vision_config": {
            "model_type": "smolvlm_vision",
            "hidden_size": width,
            "intermediate_size": ffn,
            "num_hidden_layers": depth,
            "num_attention_heads": heads,
            "num_channels": 3,
            "patch_size": patch,
            "image_size": required(file, "clip.vision.image_size")?,
            "layer_norm_eps": epsilon(file)?,
        },
    }))
}

/// Epsilon of the tower's norms. The converter writes 1e-5 where `config.json` has none; the published models are such, and have
/// 1e-6.
fn epsilon(file: &GgufFile) -> Result<f64, String> {
    let written = file.metadata.number("clip.vision.attention.layer_norm_epsilon")?;
    Ok(written.filter(|epsilon| (epsilon - 1e-5).abs() > 1e-8).unwrap_or(1e-6))
}

/// The converter reorders the rows of a head's queries and keys: those that rotate with each other become neighbors.
fn text_tensors(file: &Arc<GgufFile>) -> NamedTensors {
    let mut named = names::text(file);
    let heads = |key: &str| file.metadata.integer(key).ok().flatten();
    let all = heads("llama.attention.head_count");
    let keys = heads("llama.attention.head_count_kv").or(all);
    for (name, tensor) in &mut named {
        let heads = match name.rsplit_once(".self_attn.") {
            Some((_, "q_proj.weight")) => all,
            Some((_, "k_proj.weight")) => keys,
            _ => None,
        };
        // Sizes that do not fit are an error of the configuration.
        let heads = heads.and_then(|heads| usize::try_from(heads).ok()).filter(|heads| *heads > 0);
        if let Some(heads) = heads.filter(|heads| tensor.shape[0].is_multiple_of(2 * heads)) {
            tensor.layout = RowLayout::Pairs { heads };
        }
    }
    named
}

fn tower_tensors(file: &Arc<GgufFile>) -> NamedTensors {
    names::siglip(file, "vision_model", &TOWER)
}
