//! Qwen3.5 as GGUF (`qwen35`, with experts `qwen35moe`).
//!
//! Norms hold 1 + w, except those of linear attention; the decay of a head is stored as -exp(`A_log`). Where there are more value
//! heads than key heads, value heads are tiled: the first of each key head, then the second of each. All tensors keep that order
//! here, and the configuration says so.
//!
//! Layers for multi-token prediction follow the decoder's, and are counted with them.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    GgufFile,
    family::{Architecture, name_of, required, sections},
    names::{self, FileValues, NamePair, NamedTensors},
    qwen3_vl::{self, QWEN3_VL},
};

/// Qwen3.5 with dense language models.
pub(crate) const QWEN3_5: Architecture = Architecture {
    text: "qwen35",
    model_type: "qwen3_5",
    family: "Qwen3.5",
    shared: true,
    text_config,
    vision_config,
    text_tensors,
    ..QWEN3_VL
};

/// Qwen3.5 with experts.
pub(crate) const MOE: Architecture = Architecture { text: "qwen35moe", model_type: "qwen3_5_moe", ..QWEN3_5 };

/// The tensors of a layer that other families lack.
const LAYER: [NamePair; 8] = [
    ("post_attention_norm", "post_attention_layernorm"),
    ("attn_qkv", "linear_attn.in_proj_qkv"),
    ("attn_gate", "linear_attn.in_proj_z"),
    ("ssm_beta", "linear_attn.in_proj_b"),
    ("ssm_alpha", "linear_attn.in_proj_a"),
    ("ssm_conv1d", "linear_attn.conv1d"),
    ("ssm_norm", "linear_attn.norm"),
    ("ssm_out", "linear_attn.out_proj"),
];

/// Those whose names have no `.weight`.
const EXACT: [NamePair; 2] = [("ssm_a", "linear_attn.A_log"), ("ssm_dt.bias", "linear_attn.dt_bias")];

/// The tensors of a layer for multi-token prediction that a decoder layer lacks: names below `mtp.`.
const PREDICTION: [NamePair; 4] = [
    ("nextn.eh_proj", "fc"),
    ("nextn.enorm", "pre_fc_norm_embedding"),
    ("nextn.hnorm", "pre_fc_norm_hidden"),
    ("nextn.shared_head_norm", "norm"),
];

/// A key of this architecture.
fn key(file: &GgufFile, name: &str) -> Result<String, String> {
    Ok(format!("{}.{name}", name_of(file)?))
}

fn integer(file: &GgufFile, name: &str) -> Result<u64, String> {
    required(file, &key(file, name)?)
}

/// The decoder's layers, and those for multi-token prediction after them.
fn layers(file: &GgufFile) -> Result<(u64, u64), String> {
    let predicting = file.metadata.integer(&key(file, "nextn_predict_layers")?)?.unwrap_or(0);
    let all = integer(file, "block_count")?;
    match all.checked_sub(predicting).filter(|layers| *layers > 0) {
        Some(layers) => Ok((layers, predicting)),
        None => Err(format!("{predicting} of its {all} layers are for multi-token prediction")),
    }
}

fn text_config(file: &GgufFile, config: &mut Value) -> Result<(), String> {
    let (layers, predicting) = layers(file)?;
    let (values, heads) = (integer(file, "ssm.inner_size")?, integer(file, "ssm.time_step_rank")?);
    let value_dim = values.checked_div(heads).filter(|width| width.checked_mul(heads) == Some(values));
    let value_dim = value_dim
        .ok_or_else(|| format!("`ssm.inner_size` ({values}) is not a multiple of its {heads} heads"))?;
    let (width, rotated) = (integer(file, "attention.key_length")?, integer(file, "rope.dimension_count")?);
    if rotated > width {
        return Err(format!("`rope.dimension_count` is {rotated}, a head has {width} values"));
    }
    let keys = integer(file, "ssm.group_count")?;
    config["num_hidden_layers"] = layers.into();
    config["mtp_num_hidden_layers"] = predicting.into();
    config["attn_output_gate"] = true.into();
    config["rope_parameters"] = json!({
        "rope_type": "default",
        "mrope_interleaved": true,
        "mrope_section": sections(file)?,
        "partial_rotary_factor": rotated as f64 / width.max(1) as f64,
    });
    config["full_attention_interval"] =
        file.metadata.integer(&key(file, "full_attention_interval")?)?.unwrap_or(INTERVAL).into();
    config["linear_conv_kernel_dim"] = integer(file, "ssm.conv_kernel")?.into();
    config["linear_key_head_dim"] = integer(file, "ssm.state_size")?.into();
    config["linear_value_head_dim"] = value_dim.into();
    config["linear_num_key_heads"] = keys.into();
    config["linear_num_value_heads"] = heads.into();
    config["linear_value_heads_tiled"] = (keys != heads).into();
    if let Some(recurrent) = file.metadata.booleans(&key(file, "attention.recurrent_layers")?)? {
        let kinds = recurrent.iter().take(layers as usize);
        let kinds = kinds.map(|linear| if *linear { "linear_attention" } else { "full_attention" });
        config["layer_types"] = kinds.collect::<Vec<_>>().into();
    }
    Ok(())
}

/// Every so many layers one has full attention, where a file does not say.
const INTERVAL: u64 = 4;

/// Qwen3-VL's tower, without DeepStack.
fn vision_config(file: &GgufFile) -> Result<Value, String> {
    let config = (QWEN3_VL.vision_config)(file)?;
    match qwen3_vl::deepstack(file)?[..] {
        [] => Ok(config),
        _ => Err("it has mergers for DeepStack: it is the tower of a Qwen3-VL".into()),
    }
}

fn text_tensors(file: &Arc<GgufFile>) -> NamedTensors {
    // Counts that do not fit are an error of the configuration.
    let layers = layers(file).map_or(usize::MAX, |(layers, _)| layers as usize);
    let mut named = NamedTensors::new();
    for (theirs, mut tensor) in names::text(file) {
        let name = own_name(&theirs, layers).unwrap_or(theirs);
        tensor.stored = stored(&name);
        named.insert(name, tensor);
    }
    named
}

/// The name of a tensor that [`names::text`] has under this name.
fn own_name(name: &str, layers: usize) -> Option<String> {
    let (layer, rest) = names::block(name, "model.layers").or_else(|| names::block(name, "blk"))?;
    let exact = EXACT.iter().find(|(theirs, _)| *theirs == rest).map(|(_, ours)| (*ours).to_owned());
    let known = exact.or_else(|| names::renamed(&LAYER, rest)).unwrap_or_else(|| rest.to_owned());
    let Some(predicting) = layer.checked_sub(layers) else {
        return Some(format!("model.layers.{layer}.{known}"));
    };
    match names::renamed(&PREDICTION, rest).filter(|_| predicting == 0) {
        Some(beside) => Some(format!("mtp.{beside}")),
        None => Some(format!("mtp.layers.{predicting}.{known}")),
    }
}

/// What a file holds in place of a tensor's values.
fn stored(name: &str) -> FileValues {
    let norm = name.ends_with("norm.weight")
        || name.ends_with("layernorm.weight")
        || name.ends_with("pre_fc_norm_embedding.weight")
        || name.ends_with("pre_fc_norm_hidden.weight");
    match () {
        () if name.ends_with(".A_log") => FileValues::NegatedExponential,
        () if norm && !name.ends_with(".linear_attn.norm.weight") => FileValues::OneMore,
        () => FileValues::Values,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_after_the_decoders_predict_further_tokens() {
        for (theirs, ours) in [
            ("blk.2.ssm_a", "model.layers.2.linear_attn.A_log"),
            ("blk.2.ssm_dt.bias", "model.layers.2.linear_attn.dt_bias"),
            ("blk.2.attn_gate.weight", "model.layers.2.linear_attn.in_proj_z.weight"),
            ("blk.2.attn_qkv.weight", "model.layers.2.linear_attn.in_proj_qkv.weight"),
            ("blk.2.post_attention_norm.weight", "model.layers.2.post_attention_layernorm.weight"),
            ("model.layers.3.self_attn.q_proj.weight", "model.layers.3.self_attn.q_proj.weight"),
            ("model.layers.4.self_attn.q_proj.weight", "mtp.layers.0.self_attn.q_proj.weight"),
            ("blk.4.post_attention_norm.weight", "mtp.layers.0.post_attention_layernorm.weight"),
            ("blk.4.nextn.eh_proj.weight", "mtp.fc.weight"),
            ("blk.4.nextn.hnorm.weight", "mtp.pre_fc_norm_hidden.weight"),
            ("blk.4.nextn.shared_head_norm.weight", "mtp.norm.weight"),
        ] {
            assert_eq!(own_name(theirs, 4).as_deref(), Some(ours));
        }
        assert_eq!(own_name("model.embed_tokens.weight", 4), None);
    }

    #[test]
    fn norms_but_those_of_linear_attention_hold_one_more() {
        for (name, expected) in [
            ("model.norm.weight", FileValues::OneMore),
            ("model.layers.0.input_layernorm.weight", FileValues::OneMore),
            ("model.layers.3.self_attn.k_norm.weight", FileValues::OneMore),
            ("mtp.norm.weight", FileValues::OneMore),
            ("mtp.pre_fc_norm_embedding.weight", FileValues::OneMore),
            ("mtp.pre_fc_norm_hidden.weight", FileValues::OneMore),
            ("model.layers.0.linear_attn.norm.weight", FileValues::Values),
            ("model.layers.0.linear_attn.A_log", FileValues::NegatedExponential),
            ("model.layers.0.linear_attn.dt_bias", FileValues::Values),
            ("model.layers.0.mlp.up_proj.weight", FileValues::Values),
        ] {
            assert_eq!(stored(name), expected, "{name}");
        }
    }
}
