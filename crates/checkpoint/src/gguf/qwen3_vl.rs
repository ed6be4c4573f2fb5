//! Qwen3-VL as GGUF (`qwen3vl`, with experts `qwen3vlmoe`).

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    GgufFile,
    family::{Architecture, TowerSizes, name_of, required, rows, sections, vision_integer},
    names::{self, NamePair, NamedTensors},
    qwen2_vl::{ENDS, OUTPUT, TEMPORAL},
};

/// Qwen3-VL with dense language models.
pub const QWEN3_VL: Architecture = Architecture {
    text: "qwen3vl",
    projector: "qwen3vl_merger",
    model_type: "qwen3_vl",
    family: "Qwen3-VL",
    video_token: "<|video_pad|>",
    video_key: "video_token_id",
    ends: &ENDS,
    shared: false,
    output: OUTPUT,
    text_config,
    vision_config,
    text_tensors: names::text,
    tower_tensors,
};

/// Qwen3-VL with experts.
pub const MOE: Architecture = Architecture { text: "qwen3vlmoe", model_type: "qwen3_vl_moe", ..QWEN3_VL };

/// A merger of DeepStack: `v.deepstack.N`, where N is the block whose states it merges.
const DEEPSTACK: [NamePair; 3] = [("norm", "norm"), ("fc1", "linear_fc1"), ("fc2", "linear_fc2")];

const BLOCK: [NamePair; 2] = [("ffn_up", "mlp.linear_fc1"), ("ffn_down", "mlp.linear_fc2")];

const TOWER: [NamePair; 5] = [
    ("v.patch_embd", "patch_embed.proj"),
    ("v.position_embd", "pos_embed"),
    ("v.post_ln", "merger.norm"),
    ("mm.0", "merger.linear_fc1"),
    ("mm.2", "merger.linear_fc2"),
];

fn text_config(file: &GgufFile, config: &mut Value) -> Result<(), String> {
    config["rope_scaling"] =
        json!({ "rope_type": "default", "mrope_interleaved": true, "mrope_section": sections(file)? });
    // The width of a head does not follow from the states' width.
    required(file, &format!("{}.attention.key_length", name_of(file)?)).map(|_| ())
}

fn vision_config(file: &GgufFile) -> Result<Value, String> {
    let TowerSizes { depth, width, ffn, heads, patch, out } = TowerSizes::read(file, OUTPUT)?;
    Ok(json!({ "vision_config": {
        "depth": depth,
        "hidden_size": width,
        "intermediate_size": ffn,
        "num_heads": heads,
        "in_channels": 3,
        "patch_size": patch,
        "spatial_merge_size": vision_integer(file, "spatial_merge_size")?.unwrap_or(2),
        "temporal_patch_size": TEMPORAL,
        "out_hidden_size": out,
        "num_position_embeddings": rows(file, "v.position_embd.weight")?,
        "deepstack_visual_indexes": deepstack(file)?,
    }}))
}

/// The blocks whose states are merged for DeepStack, ascending.
pub(super) fn deepstack(file: &GgufFile) -> Result<Vec<usize>, String> {
    let key = "clip.vision.is_deepstack_layers";
    let flags = file.metadata.booleans(key)?.ok_or_else(|| format!("`{key}` is missing"))?;
    Ok((0..).zip(flags).filter(|(_, merged)| *merged).map(|(block, _)| block).collect())
}

fn tower_tensors(file: &Arc<GgufFile>) -> NamedTensors {
    let mut named = names::qwen_tower(file, &BLOCK, &TOWER);
    // An invalid list is an error of the configuration.
    let blocks = deepstack(file).unwrap_or_default();
    for (name, tensor) in &file.tensors {
        if let Some((block, rest)) = names::block(name, "v.deepstack")
            && let Some(level) = blocks.iter().position(|merged| *merged == block)
            && let Some(rest) = names::renamed(&DEEPSTACK, rest)
        {
            let ours = format!("visual.deepstack_merger_list.{level}.{rest}");
            names::insert(&mut named, ours, file, vec![tensor.clone()]);
        }
    }
    named
}
