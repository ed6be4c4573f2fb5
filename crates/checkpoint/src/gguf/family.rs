//! What a family of GGUF files says of itself, and the parts of its configuration that all families have, as `config.json` has them.
//!
//! Files do not hold everything. Constants of the published checkpoints are used for the rest, such as Qwen2.5-VL's windows of 112
//! pixels and its 2 positions a second, pairs of frames, and the pixel limits of videos.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    GgufFile,
    names::{self, NamedTensors},
};

/// Most blocks of a tower.
const BLOCKS: u64 = 4096;

/// A language model and a tower that belong together.
pub(crate) struct Architecture {
    /// `general.architecture` of the language model.
    pub text: &'static str,
    /// `clip.projector_type` of the mmproj file.
    pub projector: &'static str,
    /// `model_type` of the family's `config.json`.
    pub model_type: &'static str,
    /// The family's name, for messages.
    pub family: &'static str,
    pub video_token: &'static str,
    /// The key of its id in `config.json`.
    pub(crate) video_key: &'static str,
    /// Tokens that end an answer, besides the file's end token.
    pub ends: &'static [&'static str],
    /// True if language models without video also have this architecture.
    pub shared: bool,
    /// The tensor of the mmproj file whose rows are as many as the width of the embeddings.
    pub output: &'static str,
    /// Adds the family's own keys to the language model's common ones.
    pub(super) text_config: fn(&GgufFile, &mut Value) -> Result<(), String>,
    /// `vision_config`, and the tower's other values in the family's `config.json`.
    pub(super) vision_config: fn(&GgufFile) -> Result<Value, String>,
    /// The tensors of the language model under the names of this crate.
    pub(super) text_tensors: fn(&Arc<GgufFile>) -> NamedTensors,
    /// The tensors of the tower under the names of this crate.
    pub(super) tower_tensors: fn(&Arc<GgufFile>) -> NamedTensors,
}

/// `general.architecture`; empty if the file has none.
pub fn name_of(file: &GgufFile) -> Result<&str, String> {
    Ok(file.metadata.string("general.architecture")?.unwrap_or_default())
}

pub(super) fn required(file: &GgufFile, key: &str) -> Result<u64, String> {
    file.metadata.integer(key)?.ok_or_else(|| format!("`{key}` is missing"))
}

/// The keys of a language model's `config.json` that all families have.
pub(super) fn text_config(file: &GgufFile) -> Result<Value, String> {
    let (m, architecture) = (&file.metadata, name_of(file)?);
    let key = |name: &str| format!("{architecture}.{name}");
    let integer = |name: &str| required(file, &key(name));
    if let Some(kind) = m.string(&key("rope.scaling.type"))?.filter(|kind| *kind != "none") {
        return Err(format!("`{}` is `{kind}`, which is not supported", key("rope.scaling.type")));
    }
    let table = file.tensors.get("token_embd.weight").ok_or("tensor `token_embd.weight` is missing")?;
    let mut config = json!({
        "hidden_size": integer("embedding_length")?,
        "num_hidden_layers": integer("block_count")?,
        "num_attention_heads": integer("attention.head_count")?,
        "num_key_value_heads": first(file, &key("attention.head_count_kv"))?,
        "max_position_embeddings": m.integer(&key("context_length"))?,
        "rope_theta": m.number(&key("rope.freq_base"))?,
        "rms_norm_eps": m.number(&key("attention.layer_norm_rms_epsilon"))?,
        "vocab_size": table.shape[0],
        "tie_word_embeddings": !file.tensors.contains_key("output.weight"),
    });
    if let Some(width) = m.integer(&key("attention.key_length"))? {
        config["head_dim"] = width.into();
    }
    let dense = first(file, &key("feed_forward_length"))?;
    config["intermediate_size"] = match m.integer(&key("expert_count"))?.filter(|count| *count > 0) {
        None => dense.ok_or_else(|| format!("`{}` is missing", key("feed_forward_length")))?,
        Some(experts) => {
            let width = integer("expert_feed_forward_length")?;
            config["num_experts"] = experts.into();
            config["num_experts_per_tok"] = integer("expert_used_count")?.into();
            config["moe_intermediate_size"] = width.into();
            if let Some(shared) = m.integer(&key("expert_shared_feed_forward_length"))? {
                config["shared_expert_intermediate_size"] = shared.into();
            }
            let layers = config["num_hidden_layers"].as_u64().unwrap_or(0).min(LAYERS);
            let is_dense = |layer: &u64| file.tensors.contains_key(&format!("blk.{layer}.ffn_gate.weight"));
            config["mlp_only_layers"] = (0..layers).filter(is_dense).collect();
            dense.unwrap_or(width)
        }
    }
    .into();
    Ok(config)
}

/// An integer, or the first of several that layers have; `None` if the key is missing.
fn first(file: &GgufFile, key: &str) -> Result<Option<u64>, String> {
    let m = &file.metadata;
    let several = m.integers(key).ok().flatten().and_then(|all| all.first().copied());
    several.map_or_else(|| m.integer(key), |first| Ok(Some(first)))
}

/// Most layers whose kind is looked up.
const LAYERS: u64 = 1024;

/// The frequencies of M-RoPE's three axes.
pub(super) fn sections(file: &GgufFile) -> Result<Vec<u64>, String> {
    let key = format!("{}.rope.dimension_sections", name_of(file)?);
    let mut sections = file.metadata.integers(&key)?.ok_or_else(|| format!("`{key}` is missing"))?;
    // Four numbers, of which families with three axes leave the last one zero.
    while sections.len() > 3 && sections.last() == Some(&0) {
        sections.pop();
    }
    Ok(sections)
}

/// What all towers have: blocks, width, feed-forward width, heads, patch.
pub(super) struct TowerSizes {
    pub depth: u64,
    pub width: u64,
    pub ffn: u64,
    pub heads: u64,
    pub patch: u64,
    /// Width of the embeddings.
    pub out: u64,
}

impl TowerSizes {
    /// Read them; `output` is the tensor with a row for each value of an embedding.
    pub fn read(file: &GgufFile, output: &str) -> Result<Self, String> {
        let integer = |name: &str| required(file, &format!("clip.vision.{name}"));
        let (depth, width) = (integer("block_count")?, integer("embedding_length")?);
        if !(1..=BLOCKS).contains(&depth) || width == 0 {
            return Err(format!("its tower has {depth} blocks of width {width}"));
        }
        // `feed_forward_length` is something else in files of Qwen2-VL.
        let widening = if names::swaps_feed_forward(file) { "ffn_down" } else { "ffn_up" };
        Ok(Self {
            depth,
            width,
            ffn: rows(file, &format!("v.blk.0.{widening}.weight"))?,
            heads: integer("attention.head_count")?,
            patch: integer("patch_size")?,
            out: rows(file, output)?,
        })
    }
}

pub(super) fn rows(file: &GgufFile, name: &str) -> Result<u64, String> {
    let tensor = file.tensors.get(name).ok_or_else(|| format!("tensor `{name}` is missing"))?;
    Ok(tensor.shape[0] as u64)
}

/// An integer `clip.vision.NAME`; `None` if it is missing.
pub(super) fn vision_integer(file: &GgufFile, name: &str) -> Result<Option<u64>, String> {
    file.metadata.integer(&format!("clip.vision.{name}"))
}
