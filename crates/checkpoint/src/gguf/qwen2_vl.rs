//! Qwen2-VL and Qwen2.5-VL as GGUF.

use serde_json::{Value, json};

use super::{
    GgufFile,
    family::{Architecture, TowerSizes, required, sections, vision_integer},
    names,
};

pub const QWEN2_VL: Architecture = Architecture {
    text: "qwen2vl",
    projector: "qwen2vl_merger",
    model_type: "qwen2_vl",
    family: "Qwen2-VL",
    video_token: "<|video_pad|>",
    video_key: "video_token_id",
    ends: &ENDS,
    shared: false,
    output: OUTPUT,
    text_config,
    vision_config: qwen2,
    text_tensors: names::text,
    tower_tensors: |file| names::qwen_tower(file, &names::PLAIN, &names::MERGER),
};

pub const QWEN25_VL: Architecture = Architecture {
    projector: "qwen2.5vl_merger",
    model_type: "qwen2_5_vl",
    family: "Qwen2.5-VL",
    vision_config: qwen25,
    tower_tensors: |file| names::qwen_tower(file, &names::GATED, &names::MERGER),
    ..QWEN2_VL
};

/// Tokens that end an answer.
pub(super) const ENDS: [&str; 2] = ["<|im_end|>", "<|endoftext|>"];
/// The last layer of the merger.
pub(super) const OUTPUT: &str = "mm.2.weight";
/// Frames of a patch.
pub(super) const TEMPORAL: u64 = 2;
/// Side of an attention window of Qwen2.5-VL's tower in pixels.
const WINDOW: u64 = 112;
/// Positions per second of video of Qwen2.5-VL.
const TOKENS_PER_SECOND: u64 = 2;

fn text_config(file: &GgufFile, config: &mut Value) -> Result<(), String> {
    config["rope_scaling"] = json!({ "type": "mrope", "mrope_section": sections(file)? });
    Ok(())
}

fn common(file: &GgufFile) -> Result<(TowerSizes, Value), String> {
    let sizes = TowerSizes::read(file, OUTPUT)?;
    let config = json!({
        "depth": sizes.depth,
        "num_heads": sizes.heads,
        "in_chans": 3,
        "patch_size": sizes.patch,
        "spatial_merge_size": vision_integer(file, "spatial_merge_size")?.unwrap_or(2),
        "temporal_patch_size": TEMPORAL,
    });
    Ok((sizes, config))
}

fn qwen2(file: &GgufFile) -> Result<Value, String> {
    let (TowerSizes { width, ffn, out, .. }, mut config) = common(file)?;
    if !ffn.is_multiple_of(width) {
        return Err(format!("its feed-forward width {ffn} is not a multiple of its width {width}"));
    }
    config["embed_dim"] = width.into();
    config["mlp_ratio"] = (ffn / width).into();
    config["hidden_size"] = out.into();
    Ok(json!({ "vision_config": config }))
}

fn qwen25(file: &GgufFile) -> Result<Value, String> {
    let (TowerSizes { depth, width, ffn, out, .. }, mut config) = common(file)?;
    // Every so many blocks, one attends to the whole frame.
    let pattern = required(file, "clip.vision.n_wa_pattern")?.max(1);
    let full: Vec<u64> = (1..=depth).filter(|block| block.is_multiple_of(pattern)).map(|b| b - 1).collect();
    config["hidden_size"] = width.into();
    config["intermediate_size"] = ffn.into();
    config["out_hidden_size"] = out.into();
    config["window_size"] = vision_integer(file, "window_size")?.unwrap_or(WINDOW).into();
    config["fullatt_block_indexes"] = full.into();
    config["tokens_per_second"] = TOKENS_PER_SECOND.into();
    Ok(json!({ "vision_config": config }))
}
