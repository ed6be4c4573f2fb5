//! MiniCPM-V 4.6 as GGUF: the language model of Qwen3.5, and SigLIP with a projector of its own.
//!
//! The language model's file does not differ from Qwen3.5's: the mmproj file says which family it is.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    GgufFile,
    family::{Architecture, TowerSizes, rows},
    names::{self, NamePair, NamedTensors},
    qwen3_5::QWEN3_5,
};

pub(crate) const MINICPMV4_6: Architecture = Architecture {
    projector: "minicpmv4_6",
    model_type: "minicpmv4_6",
    family: "MiniCPM-V 4.6",
    output: OUTPUT,
    vision_config,
    tower_tensors,
    ..QWEN3_5
};

const OUTPUT: &str = "mm.down.weight";

const POSITIONS: &str = "v.position_embd.weight";

/// The tensors outside of the blocks. The layer that joins states has the name of its module.
const TOWER: [NamePair; 14] = [
    ("v.patch_embd", "vision_tower.embeddings.patch_embedding"),
    ("v.position_embd", "vision_tower.embeddings.position_embedding"),
    ("v.post_ln", "vision_tower.post_layernorm"),
    ("v.vit_merger.ln1", "vision_tower.vit_merger.layer_norm1"),
    ("v.vit_merger.attn_q", "vision_tower.vit_merger.self_attn.q_proj"),
    ("v.vit_merger.attn_k", "vision_tower.vit_merger.self_attn.k_proj"),
    ("v.vit_merger.attn_v", "vision_tower.vit_merger.self_attn.v_proj"),
    ("v.vit_merger.attn_out", "vision_tower.vit_merger.self_attn.out_proj"),
    ("v.vit_merger.ds_ln", "vision_tower.vit_merger.pre_norm"),
    ("v.vit_merger.ds_ffn_up", "vision_tower.vit_merger.linear_1"),
    ("v.vit_merger.ds_ffn_down", "vision_tower.vit_merger.linear_2"),
    ("mm.input_norm", "merger.mlp.0.pre_norm"),
    ("mm.up", "merger.mlp.0.linear_1"),
    ("mm.down", "merger.mlp.0.linear_2"),
];

fn vision_config(file: &GgufFile) -> Result<Value, String> {
    let TowerSizes { depth, width, ffn, heads, patch, .. } = TowerSizes::read(file, OUTPUT)?;
    let positions = rows(file, POSITIONS)?;
    let side = positions.isqrt();
    if side * side != positions {
        return Err(format!("tensor `{POSITIONS}` has {positions} rows, expected a square"));
    }
    let key = "clip.vision.projector.scale_factor";
    let mode = match file.metadata.integer(key)? {
        None | Some(4) => "16x",
        Some(2) => "4x",
        Some(other) => return Err(format!("`{key}` is {other}, expected 2 or 4")),
    };
    let layers = file.metadata.integers("clip.vision.wa_layer_indexes")?;
    Ok(json!({
        "downsample_mode": mode,
        "insert_layer_id": layers.and_then(|layers| layers.first().copied()),
        "vision_config": {
            "model_type": "minicpmv4_6_vision",
            "hidden_size": width,
            "intermediate_size": ffn,
            "num_hidden_layers": depth,
            "num_attention_heads": heads,
            "num_channels": 3,
            "patch_size": patch,
            // `image_size` of a file is what frames are scaled to.
            "image_size": side * patch,
            "layer_norm_eps": file.metadata.number("clip.vision.attention.layer_norm_epsilon")?,
        },
    }))
}

fn tower_tensors(file: &Arc<GgufFile>) -> NamedTensors {
    names::siglip(file, "vision_tower", &TOWER)
}
