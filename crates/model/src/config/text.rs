//! The language model's part of a `config.json`: values fixed by its kind, and values of the file.

use serde::Deserialize;
use serde_json::Value;

use super::{
    TextConfig,
    experts::ExpertSizes,
    hybrid::{Hybrid, is_silu},
};

/// What a kind of language model fixes: its architecture, and the values of keys that files leave out.
#[derive(Debug)]
pub struct LanguageModel {
    /// The `model_type` of a `text_config` begins with this.
    pub model_type: &'static str,
    /// Biases of queries, keys and values.
    pub bias: bool,
    /// Norms of queries and keys in each head.
    pub qk_norm: bool,
    /// Where M-RoPE's axes alternate: their frequencies by default.
    pub interleaved: Option<[usize; 3]>,
    pub axes: Axes,
    /// Embeddings of visual tokens are also added after the first layers.
    pub deepstack: bool,
    /// Linear attention in most layers, and norms whose weights are stored as their difference from 1.
    pub(crate) hybrid: Option<Hybrid>,
    /// Layers of experts.
    pub(crate) experts: Option<ExpertSizes>,
    /// Attention within windows, shared keys and values, and embeddings for each layer, as Gemma 4 has them.
    pub(crate) gemma: bool,
    /// Flags of files that this crate's decoder does not compute.
    pub refused: &'static [&'static str],
    /// Keys of the placeholder of a visual token.
    pub video_token: &'static [&'static str],
    pub(crate) default_video_token: Option<u64>,
    /// Base of the rotary frequencies.
    pub rope_theta: f64,
    /// Longest context.
    pub max_positions: usize,
    /// Where files may leave out sizes: their defaults.
    pub sizes: Option<Sizes>,
}

/// The axes of a kind of language model's positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axes {
    /// Time, row and column, if the file shares the frequencies among them.
    Three,
    /// One. A file that shares the frequencies is refused.
    One,
    /// One. A file may share the frequencies among three axes: all of them hold the same positions.
    Equal,
}

/// The sizes of a configuration that names none: saved files leave out values equal to them.
#[derive(Debug)]
pub struct Sizes {
    /// Width of the states.
    pub hidden: usize,
    /// Width of the feed-forward layers.
    pub intermediate: usize,
    pub layers: usize,
    pub heads: usize,
    /// None: as many as heads.
    pub kv_heads: Option<usize>,
    /// None: `hidden / heads`.
    pub head_dim: Option<usize>,
    /// Rows of the embedding table.
    pub vocab: usize,
}

/// DeepStack levels of a tower that does not name its layers.
const DEEPSTACK: usize = 3;

pub(crate) const QWEN2: LanguageModel = LanguageModel {
    model_type: "qwen2",
    bias: true,
    qk_norm: false,
    interleaved: None,
    axes: Axes::Three,
    deepstack: false,
    hybrid: None,
    experts: None,
    gemma: false,
    refused: &["use_sliding_window"],
    video_token: &["video_token_id", "video_token_index"],
    default_video_token: None,
    rope_theta: 1e6,
    max_positions: 32_768,
    sizes: None,
};

#[derive(Deserialize)]
struct RawText {
    hidden_size: Option<usize>,
    num_hidden_layers: Option<usize>,
    num_attention_heads: Option<usize>,
    num_key_value_heads: Option<usize>,
    head_dim: Option<usize>,
    intermediate_size: Option<usize>,
    vocab_size: Option<usize>,
    tie_word_embeddings: Option<bool>,
    rope_theta: Option<f64>,
    rope_scaling: Option<RawRope>,
    rope_parameters: Option<RawRope>,
    rms_norm_eps: Option<f64>,
    max_position_embeddings: Option<usize>,
    hidden_act: Option<String>,
}

#[derive(Clone, Deserialize)]
struct RawRope {
    mrope_section: Option<Vec<usize>>,
    mrope_interleaved: Option<bool>,
    rope_theta: Option<f64>,
    rope_type: Option<String>,
    /// The older name of `rope_type`; re-saved files hold both.
    #[serde(rename = "type")]
    kind: Option<String>,
}

impl LanguageModel {
    /// The key of the placeholder of a visual token.
    pub(crate) fn video_token_key(&self, raw: &Value) -> &'static str {
        let found = self.video_token.iter().find(|key| raw.get(key).is_some_and(Value::is_u64));
        found.or(self.video_token.first()).copied().unwrap_or_default()
    }

    /// The placeholder of a visual token.
    pub fn video_token(&self, raw: &Value) -> Result<u64, String> {
        let key = self.video_token_key(raw);
        let default = self.default_video_token.filter(|_| raw.get(key).is_none());
        raw.get(key).and_then(Value::as_u64).or(default).ok_or_else(|| {
            let names: Vec<String> = self.video_token.iter().map(|name| format!("`{name}`")).collect();
            match names.split_first() {
                Some((first, others)) if !others.is_empty() => {
                    format!("missing {first} (or {})", others.join(", "))
                }
                _ => format!("missing {}", names.join("")),
            }
        })
    }

    /// The configuration in a `config.json`.
    pub fn config(&self, raw: &Value) -> Result<TextConfig, String> {
        let own = raw.pointer("/text_config/model_type").and_then(Value::as_str);
        if let Some(other) = own.filter(|other| !other.starts_with(self.model_type)) {
            return Err(format!("unsupported language model `{other}`, expected {}", self.model_type));
        }
        // Keys that text_config leaves out are at the top level.
        let mut merged = raw.clone();
        if let (Some(top), Some(text)) =
            (merged.as_object_mut(), raw.get("text_config").and_then(Value::as_object))
        {
            for (key, value) in text {
                top.insert(key.clone(), value.clone());
            }
            // One of the two places may hold the default, the other the actual value.
            if raw.get("tie_word_embeddings").and_then(Value::as_bool) == Some(true) {
                top.insert("tie_word_embeddings".into(), true.into());
            }
        }
        let refused = |key: &&&str| merged.get(key).and_then(Value::as_bool) == Some(true);
        if let Some(key) = self.refused.iter().find(refused) {
            return Err(format!("`{key}` is not supported"));
        }
        let deepstack = match (self.deepstack, raw.pointer("/vision_config/deepstack_visual_indexes")) {
            (false, _) => 0,
            (true, None) => DEEPSTACK,
            (true, Some(levels)) => levels.as_array().map(Vec::len).ok_or_else(|| {
                format!("`deepstack_visual_indexes` is {levels}, expected a list of layers")
            })?,
        };
        let text = RawText::deserialize(&merged).map_err(|e| e.to_string())?;
        let config = text.resolve(self, &merged)?;
        let config = if self.gemma { super::gemma::resolve(&merged, config)? } else { config };
        if deepstack > config.layers {
            return Err(format!(
                "`deepstack_visual_indexes` has {deepstack} levels, but the language model has {} layers",
                config.layers
            ));
        }
        Ok(TextConfig { deepstack, ..config })
    }
}

impl RawText {
    fn resolve(self, model: &LanguageModel, merged: &Value) -> Result<TextConfig, String> {
        let sizes = model.sizes.as_ref();
        let required = |value: Option<usize>, key: &str, default: Option<usize>| {
            value.or(default).ok_or_else(|| format!("missing field `{key}`"))
        };
        let hidden = required(self.hidden_size, "hidden_size", sizes.map(|s| s.hidden))?;
        let layers = required(self.num_hidden_layers, "num_hidden_layers", sizes.map(|s| s.layers))?;
        let heads = required(self.num_attention_heads, "num_attention_heads", sizes.map(|s| s.heads))?;
        let intermediate =
            required(self.intermediate_size, "intermediate_size", sizes.map(|s| s.intermediate))?;
        let vocab = required(self.vocab_size, "vocab_size", sizes.map(|s| s.vocab))?;
        let head_dim = self.head_dim.or(sizes.and_then(|s| s.head_dim));
        let rope = self.rope_scaling.or(self.rope_parameters);
        check_rope(rope.as_ref(), model)?;
        if let Some(act) = self.hidden_act.filter(|act| !is_silu(act)) {
            return Err(format!("unsupported `hidden_act` `{act}`, expected silu"));
        }
        let limits: [(&str, usize, usize); 6] = [
            ("hidden_size", hidden, 1 << 16),
            ("num_hidden_layers", layers, 1024),
            ("num_attention_heads", heads, 1024),
            ("intermediate_size", intermediate, 1 << 20),
            ("vocab_size", vocab, 1 << 22),
            ("head_dim", head_dim.unwrap_or(1), 1024),
        ];
        for (key, value, limit) in limits {
            if value == 0 || value > limit {
                return Err(format!("`{key}` is {value}, expected 1 to {limit}"));
            }
        }
        let kv_heads = self.num_key_value_heads.or(sizes.and_then(|s| s.kv_heads)).unwrap_or(heads);
        if kv_heads == 0 || !heads.is_multiple_of(kv_heads) {
            return Err(format!(
                "`num_attention_heads` ({heads}) is not a multiple of `num_key_value_heads` ({kv_heads})"
            ));
        }
        let head_dim = match head_dim {
            Some(d) => d,
            None if hidden.is_multiple_of(heads) => hidden / heads,
            None => {
                return Err(format!(
                    "`hidden_size` ({hidden}) is not a multiple of `num_attention_heads` ({heads})"
                ));
            }
        };
        if !head_dim.is_multiple_of(2) {
            return Err(format!("`head_dim` is {head_dim}, expected an even number"));
        }
        let hybrid =
            model.hybrid.as_ref().map(|hybrid| hybrid.resolve(merged, layers, head_dim)).transpose()?;
        let rotary_dim = hybrid.as_ref().map_or(head_dim, |hybrid| hybrid.rotary_dim);
        let section = rope.as_ref().and_then(|r| r.mrope_section.as_deref());
        let section = section.filter(|_| model.axes != Axes::Equal);
        let mrope_section = match section.or(model.interleaved.as_ref().map(<[usize; 3]>::as_slice)) {
            None => None,
            // The fourth of four axes has none.
            Some(&[t, h, w] | &[t, h, w, 0])
                if t.checked_add(h).and_then(|s| s.checked_add(w)) == Some(rotary_dim / 2) =>
            {
                Some([t, h, w])
            }
            Some(other) if rotary_dim < head_dim => {
                return Err(format!(
                    "`mrope_section` {other:?} does not add up to half of the {rotary_dim} rotated values of a head"
                ));
            }
            Some(other) => {
                return Err(format!(
                    "`mrope_section` {other:?} does not add up to half of `head_dim` ({})",
                    head_dim / 2
                ));
            }
        };
        let rope_theta = self.rope_theta.or(rope.and_then(|r| r.rope_theta)).unwrap_or(model.rope_theta);
        if !(rope_theta.is_finite() && rope_theta > 0.0) {
            return Err(format!("`rope_theta` is {rope_theta}, expected a positive number"));
        }
        Ok(TextConfig {
            hidden,
            layers,
            heads,
            kv_heads,
            head_dim,
            intermediate,
            vocab,
            tied: self.tie_word_embeddings.unwrap_or(false),
            rope_theta,
            mrope_section,
            interleaved: model.interleaved.is_some(),
            bias: model.bias,
            qk_norm: model.qk_norm,
            output_gate: hybrid.as_ref().is_some_and(|hybrid| hybrid.output_gate),
            rotary_dim,
            norm_offset: hybrid.is_some(),
            linear: hybrid.and_then(|hybrid| hybrid.linear),
            sparse: model.experts.as_ref().map(|experts| experts.resolve(merged)).transpose()?,
            convolution: None,
            gemma: None,
            assists: None,
            deepstack: 0,
            norm_eps: self.rms_norm_eps.unwrap_or(1e-6) as f32,
            max_positions: self.max_position_embeddings.unwrap_or(model.max_positions),
        })
    }
}

/// Refuse positions that the decoder does not have.
fn check_rope(rope: Option<&RawRope>, model: &LanguageModel) -> Result<(), String> {
    let Some(rope) = rope else { return Ok(()) };
    // A language model without three axes knows no M-RoPE.
    let known: &[&str] = if model.axes == Axes::One { &["default"] } else { &["mrope", "default"] };
    if let Some(kind) = rope.kind.as_deref().or(rope.rope_type.as_deref())
        && !known.contains(&kind)
    {
        return Err(format!("unsupported rope type `{kind}`, expected {}", known.join(" or ")));
    }
    if model.axes == Axes::One && rope.mrope_section.is_some() {
        return Err("`mrope_section` is not supported: the model has positions of one axis".into());
    }
    match (model.interleaved.is_some(), rope.mrope_interleaved) {
        _ if model.axes == Axes::Equal => Ok(()),
        (true, Some(false)) => Err("`mrope_interleaved` is false, expected true".into()),
        (false, Some(true)) => Err("`mrope_interleaved` is true, expected false".into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
