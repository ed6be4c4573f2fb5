//! Which GGUF files are which family, and their configuration as `config.json` has it.
//!
//! A new family is a row of [`SUPPORTED`], its tensors' names in `names`, and its tower in [`vision_config`].
//!
//! Files do not hold everything. Constants of the published checkpoints are used for Qwen2.5-VL's windows of 112 pixels and its
//! 2 positions a second, for pairs of frames, and for the pixel limits of videos.

use serde_json::{Value, json};

use super::{GgufFile, names};
use crate::model::family::Family;

/// A language model and a tower that belong together.
pub struct Architecture {
    /// `general.architecture` of the language model.
    pub text: &'static str,
    /// `clip.projector_type` of the mmproj file.
    pub projector: &'static str,
    /// The family.
    pub family: Family,
    /// The token of visual tokens in a video.
    pub video_token: &'static str,
}

/// All supported pairs.
pub const SUPPORTED: [Architecture; 2] = [
    Architecture {
        text: "qwen2vl",
        projector: "qwen2vl_merger",
        family: Family::Qwen2Vl,
        video_token: "<|video_pad|>",
    },
    Architecture {
        text: "qwen2vl",
        projector: "qwen2.5vl_merger",
        family: Family::Qwen25Vl,
        video_token: "<|video_pad|>",
    },
];

/// The architecture of every mmproj file.
pub const TOWER: &str = "clip";

/// Side of an attention window of Qwen2.5-VL's tower in pixels.
const WINDOW: u64 = 112;
/// Positions per second of video of Qwen2.5-VL.
const TOKENS_PER_SECOND: u64 = 2;
/// Frames of a patch.
const TEMPORAL: u64 = 2;
/// Most blocks of a tower.
const BLOCKS: u64 = 4096;

/// The supported architectures of language models with their families, for messages.
pub fn supported_text() -> String {
    let mut families: Vec<(&str, Vec<&str>)> = Vec::new();
    for row in &SUPPORTED {
        match families.iter_mut().find(|(text, _)| *text == row.text) {
            Some((_, names)) => names.push(row.family.name()),
            None => families.push((row.text, vec![row.family.name()])),
        }
    }
    families
        .iter()
        .map(|(text, names)| format!("{text} ({})", names.join(", ")))
        .collect::<Vec<_>>()
        .join(", ")
}

/// True for the architecture of a language model of a supported family.
pub fn is_supported(text: &str) -> bool {
    SUPPORTED.iter().any(|row| row.text == text)
}

/// Why an architecture is refused.
pub fn unsupported(text: &str) -> String {
    format!("unsupported architecture `{text}`, expected one of: {}", supported_text())
}

/// The supported projectors with their families, for messages.
pub fn supported_projectors() -> String {
    SUPPORTED
        .iter()
        .map(|row| format!("{} ({})", row.projector, row.family.name()))
        .collect::<Vec<_>>()
        .join(", ")
}

/// `general.architecture`; empty if the file has none.
pub fn name_of(file: &GgufFile) -> Result<&str, String> {
    Ok(file.metadata.string("general.architecture")?.unwrap_or_default())
}

/// The projector type of an mmproj file; empty if it has none.
pub fn projector_of(file: &GgufFile) -> Result<&str, String> {
    let named = file.metadata.string("clip.projector_type")?;
    Ok(named.or(file.metadata.string("clip.vision.projector_type")?).unwrap_or_default())
}

fn required(file: &GgufFile, key: &str) -> Result<u64, String> {
    file.metadata.integer(key)?.ok_or_else(|| format!("`{key}` is missing"))
}

/// The language model's part of a `config.json`.
pub fn text_config(file: &GgufFile) -> Result<Value, String> {
    let (m, architecture) = (&file.metadata, name_of(file)?);
    let key = |name: &str| format!("{architecture}.{name}");
    let integer = |name: &str| required(file, &key(name));
    if let Some(kind) = m.string(&key("rope.scaling.type"))?.filter(|kind| *kind != "none") {
        return Err(format!("`{}` is `{kind}`, which is not supported", key("rope.scaling.type")));
    }
    let table = file.tensors.get("token_embd.weight").ok_or("tensor `token_embd.weight` is missing")?;
    let mut sections = m.integers(&key("rope.dimension_sections"))?;
    if let Some(sections) = &mut sections {
        // Four numbers, of which families with three axes leave the last one zero.
        while sections.len() > 3 && sections.last() == Some(&0) {
            sections.pop();
        }
    }
    let sections = sections.ok_or_else(|| format!("`{}` is missing", key("rope.dimension_sections")))?;
    let mut config = json!({
        "hidden_size": integer("embedding_length")?,
        "num_hidden_layers": integer("block_count")?,
        "num_attention_heads": integer("attention.head_count")?,
        "num_key_value_heads": m.integer(&key("attention.head_count_kv"))?,
        "intermediate_size": integer("feed_forward_length")?,
        "max_position_embeddings": m.integer(&key("context_length"))?,
        "rope_theta": m.number(&key("rope.freq_base"))?,
        "rms_norm_eps": m.number(&key("attention.layer_norm_rms_epsilon"))?,
        "vocab_size": table.shape[0],
        "tie_word_embeddings": !file.tensors.contains_key("output.weight"),
        "rope_scaling": { "type": "mrope", "mrope_section": sections },
    });
    if let Some(width) = m.integer(&key("attention.key_length"))? {
        config["head_dim"] = width.into();
    }
    Ok(config)
}

/// The tower's part of a `config.json`, for a family.
pub fn vision_config(file: &GgufFile, family: Family) -> Result<Value, String> {
    let integer = |name: &str| required(file, &format!("clip.vision.{name}"));
    let optional = |name: &str| file.metadata.integer(&format!("clip.vision.{name}"));
    let rows = |name: &str| {
        let tensor = file.tensors.get(name).ok_or_else(|| format!("tensor `{name}` is missing"))?;
        Ok::<u64, String>(tensor.shape[0] as u64)
    };
    let (depth, width) = (integer("block_count")?, integer("embedding_length")?);
    if !(1..=BLOCKS).contains(&depth) || width == 0 {
        return Err(format!("its tower has {depth} blocks of width {width}"));
    }
    // `feed_forward_length` is something else in files of Qwen2-VL.
    let widening = if names::swaps_feed_forward(file) { "ffn_down" } else { "ffn_up" };
    let (ffn, out) = (rows(&format!("v.blk.0.{widening}.weight"))?, rows("mm.2.weight")?);
    let mut config = json!({
        "depth": depth,
        "num_heads": integer("attention.head_count")?,
        "in_chans": 3,
        "patch_size": integer("patch_size")?,
        "spatial_merge_size": optional("spatial_merge_size")?.unwrap_or(2),
        "temporal_patch_size": TEMPORAL,
    });
    match family {
        Family::Qwen2Vl => {
            if !ffn.is_multiple_of(width) {
                return Err(format!("its feed-forward width {ffn} is not a multiple of its width {width}"));
            }
            config["embed_dim"] = width.into();
            config["mlp_ratio"] = (ffn / width).into();
            config["hidden_size"] = out.into();
        }
        Family::Qwen25Vl => {
            // Every so many blocks, one attends to the whole frame.
            let pattern = integer("n_wa_pattern")?.max(1);
            let full: Vec<u64> =
                (1..=depth).filter(|block| block.is_multiple_of(pattern)).map(|b| b - 1).collect();
            config["hidden_size"] = width.into();
            config["intermediate_size"] = ffn.into();
            config["out_hidden_size"] = out.into();
            config["window_size"] = optional("window_size")?.unwrap_or(WINDOW).into();
            config["fullatt_block_indexes"] = full.into();
            config["tokens_per_second"] = TOKENS_PER_SECOND.into();
        }
        Family::LlavaOnevision => return Err("LLaVA-OneVision is not supported as GGUF".into()),
    }
    Ok(config)
}
