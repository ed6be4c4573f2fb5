//! Gemma 4 as GGUF (`gemma4`): E2B and E4B. What says that a file is of a larger size becomes the key of `config.json` for which that is
//! refused.
//!
//! The kernel over patches has its colors one after the other here, not together as in a directory. Files say neither the square that a
//! visual token is pooled from nor the base of the tower's positions: the published models are alike.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    GgufFile,
    family::{Architecture, TowerSizes, required, rows},
    names::{self, NamePair, NamedTensors},
};

pub(crate) const GEMMA4: Architecture = Architecture {
    text: "gemma4",
    projector: "gemma4v",
    model_type: "gemma4",
    family: "Gemma 4",
    video_token: "<|video|>",
    video_key: "video_token_id",
    ends: &["<turn|>"],
    shared: false,
    output: OUTPUT,
    text_config,
    vision_config,
    text_tensors,
    tower_tensors,
};

const OUTPUT: &str = "mm.input_projection.weight";
const POSITIONS: &str = "v.position_embd.weight";
/// By what the frequencies of the layers that see all slots are divided: 1, or so much that a pair is not rotated.
const FREQUENCIES: &str = "rope_freqs.weight";

/// The tensors of a layer that other families lack, or have under other names.
const LAYER: [NamePair; 6] = [
    ("post_attention_norm", "post_attention_layernorm"),
    ("ffn_norm", "pre_feedforward_layernorm"),
    ("post_ffw_norm", "post_feedforward_layernorm"),
    ("inp_gate", "per_layer_input_gate"),
    ("proj", "per_layer_projection"),
    ("post_norm", "post_per_layer_input_norm"),
];
const SCALAR: &str = "layer_output_scale.weight";

const TEXT: [NamePair; 3] = [
    ("per_layer_token_embd", "model.embed_tokens_per_layer"),
    ("per_layer_model_proj", "model.per_layer_model_projection"),
    ("per_layer_proj_norm", "model.per_layer_projection_norm"),
];

/// The norms of a block, and its matrices.
const BLOCK: [NamePair; 6] = [
    ("ln1", "input_layernorm"),
    ("ln2", "pre_feedforward_layernorm"),
    ("attn_post_norm", "post_attention_layernorm"),
    ("ffn_post_norm", "post_feedforward_layernorm"),
    ("attn_q_norm", "self_attn.q_norm"),
    ("attn_k_norm", "self_attn.k_norm"),
];
const MATRICES: [NamePair; 7] = [
    ("attn_q", "self_attn.q_proj"),
    ("attn_k", "self_attn.k_proj"),
    ("attn_v", "self_attn.v_proj"),
    ("attn_out", "self_attn.o_proj"),
    ("ffn_gate", "mlp.gate_proj"),
    ("ffn_up", "mlp.up_proj"),
    ("ffn_down", "mlp.down_proj"),
];
const TOWER: [NamePair; 2] = [
    ("v.patch_embd", "vision_tower.patch_embedder.input_proj"),
    ("mm.input_projection", "embed_vision.embedding_projection"),
];

fn text_config(file: &GgufFile, config: &mut Value) -> Result<(), String> {
    let m = &file.metadata;
    let key = |name: &str| format!("gemma4.{name}");
    let number = |name: &str| {
        let key = key(name);
        m.number(&key)?.ok_or_else(|| format!("`{key}` is missing"))
    };
    let pattern = key("attention.sliding_window_pattern");
    let sliding = m.booleans(&pattern)?.ok_or_else(|| format!("`{pattern}` is missing"))?;
    let kind = |sliding: &bool| if *sliding { "sliding_attention" } else { "full_attention" };
    let layers: Vec<&str> = sliding.iter().map(kind).collect();
    let narrow = config["intermediate_size"].as_u64().unwrap_or(0);
    let last = layers.len().saturating_sub(1);
    let wide = rows(file, &format!("blk.{last}.ffn_up.weight")).is_ok_and(|rows| rows == 2 * narrow);
    let has = |layer: usize, part: &str| file.tensors.contains_key(&format!("blk.{layer}.{part}.weight"));
    let values_are_keys = (0..layers.len()).any(|layer| has(layer, "attn_k") && !has(layer, "attn_v"));
    let added = required(file, &key("embedding_length_per_layer_input"))?;
    let table = if added > 0 { rows(file, "per_layer_token_embd.weight")? } else { 0 };
    let own = json!({
        "head_dim": required(file, &key("attention.key_length_swa"))?,
        "global_head_dim": required(file, &key("attention.key_length"))?,
        "layer_types": layers,
        "sliding_window": required(file, &key("attention.sliding_window"))?,
        "num_kv_shared_layers": required(file, &key("attention.shared_kv_layers"))?,
        "use_double_wide_mlp": wide,
        "hidden_size_per_layer_input": added,
        "vocab_size_per_layer_input": table,
        "pad_token_id": m.integer("tokenizer.ggml.padding_token_id")?,
        "final_logit_softcapping": m.number(&key("final_logit_softcapping"))?,
        "attention_k_eq_v": values_are_keys,
        "enable_moe_block": m.integer(&key("expert_count"))?.is_some_and(|experts| experts > 0),
        "rope_parameters": {
            "full_attention": {
                "rope_type": "proportional",
                "rope_theta": number("rope.freq_base")?,
                "partial_rotary_factor": rotated(file)?,
            },
            "sliding_attention": { "rope_type": "default", "rope_theta": number("rope.freq_base_swa")? },
        },
    });
    if let (Some(config), Value::Object(own)) = (config.as_object_mut(), own) {
        config.extend(own);
    }
    Ok(())
}

/// The share of a head that is rotated in layers that see all slots.
fn rotated(file: &GgufFile) -> Result<f64, String> {
    let tensor = file.tensors.get(FREQUENCIES).ok_or_else(|| format!("tensor `{FREQUENCIES}` is missing"))?;
    if tensor.kind != specreel_tensor::TensorType::F32 || tensor.values() == 0 {
        return Err(format!("tensor `{FREQUENCIES}` does not hold f32 values"));
    }
    let (factors, _) = file.raw(tensor).as_chunks::<4>();
    let turned: Vec<bool> = factors.iter().map(|bytes| f32::from_le_bytes(*bytes) == 1.0).collect();
    let count = turned.iter().filter(|turned| **turned).count();
    match turned[..count].iter().all(|turned| *turned) {
        true => Ok(count as f64 / turned.len() as f64),
        false => Err(format!("tensor `{FREQUENCIES}` scales positions, which is not supported")),
    }
}

fn vision_config(file: &GgufFile) -> Result<Value, String> {
    let TowerSizes { depth, width, ffn, heads, patch, .. } = TowerSizes::read(file, OUTPUT)?;
    let table = file.tensors.get(POSITIONS).and_then(|tensor| tensor.shape.get(1).copied());
    Ok(json!({
        "vision_config": {
            "model_type": "gemma4_vision",
            "hidden_size": width,
            "intermediate_size": ffn,
            "num_hidden_layers": depth,
            "num_attention_heads": heads,
            "head_dim": width / heads.max(1),
            "patch_size": patch,
            "colors_apart": true,
            "position_embedding_size": table.ok_or_else(|| format!("tensor `{POSITIONS}` is missing"))?,
            "use_clipped_linears": file.tensors.contains_key("v.blk.0.attn_q.input_max"),
            "rms_norm_eps": file.metadata.number("clip.vision.attention.layer_norm_epsilon")?,
        },
    }))
}

fn text_tensors(file: &Arc<GgufFile>) -> NamedTensors {
    let mut named = NamedTensors::new();
    for (name, tensor) in &file.tensors {
        let ours = match names::block(name, "blk") {
            Some((layer, rest)) => {
                let rest = match rest {
                    SCALAR => Some("layer_scalar".to_owned()),
                    _ => names::renamed(&LAYER, rest).or_else(|| names::renamed(&names::LAYER, rest)),
                };
                rest.map(|rest| format!("model.layers.{layer}.{rest}"))
            }
            None => names::renamed(&TEXT, name).or_else(|| names::renamed(&names::TEXT, name)),
        };
        names::insert(&mut named, ours.unwrap_or_else(|| name.clone()), file, vec![tensor.clone()]);
    }
    named
}

fn tower_tensors(file: &Arc<GgufFile>) -> NamedTensors {
    let mut named = NamedTensors::new();
    for (name, tensor) in &file.tensors {
        let mut tensor = tensor.clone();
        let ours = match names::block(name, "v.blk") {
            Some((number, rest)) => {
                let matrix = names::renamed(&MATRICES, rest).map(|rest| match rest.strip_suffix(".weight") {
                    Some(matrix) => format!("{matrix}.linear.weight"),
                    // A bound, which is one value.
                    None => {
                        tensor.shape.clear();
                        rest
                    }
                });
                let rest = names::renamed(&BLOCK, rest).or(matrix);
                rest.map(|rest| format!("vision_tower.encoder.layers.{number}.{rest}"))
            }
            None if name == POSITIONS => {
                Some("vision_tower.patch_embedder.position_embedding_table".to_owned())
            }
            None => names::renamed(&TOWER, name),
        };
        if let Some(ours) = ours {
            names::insert(&mut named, ours, file, vec![tensor]);
        }
    }
    named
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn norms_of_a_layer_are_told_apart() {
        let ours = |name: &str| names::renamed(&LAYER, name).or_else(|| names::renamed(&names::LAYER, name));
        for (theirs, expected) in [
            ("ffn_norm.weight", "pre_feedforward_layernorm.weight"),
            ("post_norm.weight", "post_per_layer_input_norm.weight"),
            ("proj.weight", "per_layer_projection.weight"),
            ("attn_norm.weight", "input_layernorm.weight"),
            ("attn_output.weight", "self_attn.o_proj.weight"),
        ] {
            assert_eq!(ours(theirs).as_deref(), Some(expected));
        }
    }
}
