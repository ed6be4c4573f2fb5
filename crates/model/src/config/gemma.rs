//! Language models of Gemma 4, from `config.json`: attention within a window and over all slots in turn, layers that share keys
//! and values, and embeddings for each layer.

use serde::Deserialize;
use serde_json::Value;

use super::{
    TextConfig,
    text::{Axes, LanguageModel, Sizes},
};

/// What the language models of Gemma 4 fix.
pub(crate) const GEMMA4: LanguageModel = LanguageModel {
    model_type: "gemma4",
    bias: false,
    qk_norm: true,
    interleaved: None,
    axes: Axes::One,
    deepstack: false,
    hybrid: None,
    experts: None,
    gemma: true,
    refused: &[],
    video_token: &["video_token_id"],
    default_video_token: Some(258_884),
    rope_theta: 1e6,
    max_positions: 131_072,
    sizes: Some(Sizes {
        hidden: 2304,
        intermediate: 9216,
        layers: 30,
        heads: 8,
        kv_heads: Some(4),
        head_dim: Some(256),
        vocab: 262_144,
    }),
};

/// What the language models of Gemma 4 add. Head sizes in its [`TextConfig`] are those of the layers that attend to all slots.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Gemma {
    /// For each layer, whether it attends within the window.
    pub sliding: Vec<bool>,
    /// Slots that a row sees in these layers, its own among them.
    pub window: usize,
    /// Key and value heads of these layers.
    pub kv_heads: usize,
    /// Values of a head of these layers, all of which are rotated.
    pub head_dim: usize,
    /// Base of the rotary frequencies of these layers.
    pub rope_theta: f64,
    /// Pairs of values that the other layers rotate in each head, at the frequencies of a head that is rotated whole.
    pub rotated_pairs: usize,
    /// From this layer on, layers have no keys and values of their own and read those of the last earlier layer of their kind.
    pub first_shared: usize,
    /// Those layers have feed-forward layers of twice the width.
    pub wide: bool,
    /// The embeddings that are added in each layer; `None` = none.
    pub per_layer: Option<PerLayer>,
    /// Logits are `cap · tanh(logit / cap)`; `None` = as they are.
    pub logit_cap: Option<f32>,
}

/// Embeddings of ids for each layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct PerLayer {
    /// Values for one layer.
    pub width: usize,
    /// Layers of the whole model.
    pub layers: usize,
    /// Rows of the table.
    pub vocab: usize,
    /// The id whose embeddings visual tokens have.
    pub visual: u32,
}

impl PerLayer {
    /// Values for all layers.
    pub fn values(self) -> usize {
        self.width * self.layers
    }
}

const FULL: &str = "full_attention";
const SLIDING: &str = "sliding_attention";
/// Of so many layers the last one attends to all slots, where a file does not list them.
const EVERY: usize = 6;

#[derive(Deserialize)]
struct Raw {
    layer_types: Option<Vec<String>>,
    sliding_window: Option<usize>,
    global_head_dim: Option<usize>,
    per_layer_config: Option<Value>,
    attention_bias: Option<bool>,
    attention_k_eq_v: Option<bool>,
    enable_moe_block: Option<bool>,
    use_bidirectional_attention: Option<String>,
    num_kv_shared_layers: Option<usize>,
    use_double_wide_mlp: Option<bool>,
    hidden_size_per_layer_input: Option<usize>,
    vocab_size_per_layer_input: Option<usize>,
    pad_token_id: Option<u32>,
    final_logit_softcapping: Option<f64>,
    hidden_activation: Option<String>,
    tie_word_embeddings: Option<bool>,
    rope_parameters: Option<RawRopes>,
    /// Of an assistant: the width of its target's states.
    backbone_hidden_size: Option<usize>,
}

#[derive(Default, Deserialize)]
struct RawRopes {
    full_attention: Option<RawRope>,
    sliding_attention: Option<RawRope>,
}

#[derive(Default, Deserialize)]
struct RawRope {
    rope_type: Option<String>,
    rope_theta: Option<f64>,
    partial_rotary_factor: Option<f64>,
    factor: Option<f64>,
}

impl RawRope {
    /// Base of the frequencies, and the share of a head that is rotated.
    fn resolve(self, kind: &str, types: &[&str], theta: f64, share: f64) -> Result<(f64, f64), String> {
        let key = format!("rope_parameters.{kind}");
        if let Some(other) = self.rope_type.filter(|own| !types.contains(&own.as_str())) {
            return Err(format!("unsupported `{key}.rope_type` `{other}`, expected {}", types.join(" or ")));
        }
        if self.factor.is_some_and(|factor| factor != 1.0) {
            return Err(format!("`{key}.factor` is not supported"));
        }
        let (theta, share) = (self.rope_theta.unwrap_or(theta), self.partial_rotary_factor.unwrap_or(share));
        if !(theta.is_finite() && theta > 0.0 && share > 0.0 && share <= 1.0) {
            return Err(format!(
                "`{key}` has base {theta} and share {share}, expected positive numbers, and a share up to 1"
            ));
        }
        Ok((theta, share))
    }
}

/// The configuration of a model whose other keys are resolved already.
pub(super) fn resolve(merged: &Value, c: TextConfig) -> Result<TextConfig, String> {
    let raw = Raw::deserialize(merged).map_err(|e| e.to_string())?;
    // Of the larger sizes.
    let larger = [
        ("attention_k_eq_v", raw.attention_k_eq_v == Some(true)),
        ("enable_moe_block", raw.enable_moe_block == Some(true)),
        ("use_bidirectional_attention", raw.use_bidirectional_attention.is_some()),
        ("attention_bias", raw.attention_bias == Some(true)),
    ];
    if let Some((key, _)) = larger.iter().find(|(_, is_set)| *is_set) {
        return Err(format!("`{key}` is not supported: of Gemma 4, E2B and E4B are"));
    }
    if let Some(other) = raw.hidden_activation.filter(|act| act != "gelu_pytorch_tanh") {
        return Err(format!("unsupported `hidden_activation` `{other}`, expected gelu_pytorch_tanh"));
    }
    let sliding = kinds(raw.layer_types, c.layers)?;
    let window = raw.sliding_window.unwrap_or(512);
    let full_dim = raw.per_layer_config.as_ref().and_then(|layers| full_head_dim(layers, &sliding));
    let head_dim = full_dim.or(raw.global_head_dim).unwrap_or(512);
    let shared = raw.num_kv_shared_layers.unwrap_or(0);
    let first_shared = c.layers.saturating_sub(shared);
    let own = |kind: bool| sliding[..first_shared].contains(&kind);
    if shared > 0 && raw.backbone_hidden_size.is_none() && sliding.iter().any(|kind| !own(*kind)) {
        return Err(format!(
            "`num_kv_shared_layers` is {shared}: a kind of layer would have no keys and values"
        ));
    }
    let width = raw.hidden_size_per_layer_input.unwrap_or(256);
    for (key, value, limit) in [
        ("sliding_window", window, 1 << 24),
        ("global_head_dim", head_dim, 1024),
        ("hidden_size_per_layer_input", width + 1, 1 << 16),
    ] {
        if value == 0 || value > limit {
            return Err(format!("`{key}` is {value}, expected 1 to {limit}"));
        }
    }
    if !head_dim.is_multiple_of(2) {
        return Err(format!("`global_head_dim` is {head_dim}, expected an even number"));
    }
    let ropes = raw.rope_parameters.unwrap_or_default();
    let full = ropes.full_attention.unwrap_or_default();
    let (theta, share) = full.resolve(FULL, &["proportional", "default"], 1e6, 0.25)?;
    let (local, all) =
        ropes.sliding_attention.unwrap_or_default().resolve(SLIDING, &["default"], 1e4, 1.0)?;
    if all != 1.0 {
        return Err("`rope_parameters.sliding_attention.partial_rotary_factor` is not supported".into());
    }
    let vocab = raw.vocab_size_per_layer_input.unwrap_or(c.vocab);
    let visual = raw.pad_token_id.unwrap_or(0);
    if width > 0 && visual as usize >= vocab.min(c.vocab) {
        return Err(format!("`pad_token_id` is {visual}, but there are {} embeddings", vocab.min(c.vocab)));
    }
    let per_layer = (width > 0).then_some(PerLayer { width, layers: c.layers, vocab, visual });
    let gemma = Gemma {
        window,
        kv_heads: c.kv_heads,
        head_dim: c.head_dim,
        rope_theta: local,
        rotated_pairs: (share * head_dim as f64) as usize / 2,
        first_shared,
        wide: raw.use_double_wide_mlp == Some(true),
        per_layer,
        logit_cap: raw.final_logit_softcapping.map(|cap| cap as f32),
        sliding,
    };
    Ok(TextConfig {
        head_dim,
        rotary_dim: head_dim,
        rope_theta: theta,
        tied: raw.tie_word_embeddings.unwrap_or(true),
        gemma: Some(gemma),
        ..c
    })
}

/// For each layer, whether it attends within the window.
fn kinds(types: Option<Vec<String>>, layers: usize) -> Result<Vec<bool>, String> {
    let Some(types) = types else {
        return Ok((1..=layers).map(|layer| !layer.is_multiple_of(EVERY) && layer < layers).collect());
    };
    if types.len() != layers {
        return Err(format!("`layer_types` has {} entries for {layers} layers", types.len()));
    }
    types
        .iter()
        .enumerate()
        .map(|(index, kind)| match kind.as_str() {
            // transformers lets the last layer see all slots, whatever the file says.
            FULL => Ok(false),
            SLIDING => Ok(index + 1 < layers),
            other => {
                Err(format!("layer {index} of `layer_types` is `{other}`, expected {SLIDING} or {FULL}"))
            }
        })
        .collect()
}

/// The width of a head where layers see all slots, of a file that lists what differs by layer.
fn full_head_dim(layers: &Value, sliding: &[bool]) -> Option<usize> {
    let first = sliding.iter().position(|sliding| !sliding)?;
    layers.get(first.to_string())?.get("head_dim")?.as_u64().and_then(|dim| usize::try_from(dim).ok())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::family::VlConfig;

    fn e2b() -> serde_json::Value {
        json!({
            "model_type": "gemma4", "tie_word_embeddings": true, "video_token_id": 258_884,
            "text_config": {
                "model_type": "gemma4_text", "hidden_size": 1536, "intermediate_size": 6144, "num_hidden_layers": 35,
                "num_attention_heads": 8, "num_key_value_heads": 1, "head_dim": 256, "global_head_dim": 512,
                "vocab_size": 262_144, "sliding_window": 512, "num_kv_shared_layers": 20, "use_double_wide_mlp": true,
                "final_logit_softcapping": 30.0, "hidden_size_per_layer_input": 256, "rms_norm_eps": 1e-6,
                "layer_types": (1..=35).map(|n| if n % 5 == 0 { "full_attention" } else { "sliding_attention" })
                    .collect::<Vec<_>>(),
            },
            "vision_config": {},
        })
    }

    #[test]
    fn layers_find_their_keys_and_values() {
        let c = VlConfig::resolve(e2b()).unwrap().text;
        let gemma = c.gemma.as_ref().unwrap();
        assert_eq!((c.head_dim, gemma.head_dim, gemma.rotated_pairs, gemma.first_shared), (512, 256, 64, 15));
        // Layers 4, 9 and 14 have keys and values of all slots, and 20 to 34 those of layer 14.
        assert_eq!((c.attention_layers(), c.sliding_layers()), (3, 12));
        assert_eq!([4, 9, 14, 19, 34].map(|layer| c.cache_layer(layer)), [0, 1, 2, 2, 2]);
        assert_eq!([0, 3, 5, 13, 15, 33].map(|layer| c.cache_layer(layer)), [0, 3, 4, 11, 11, 11]);
        assert_eq!([14, 15].map(|layer| c.intermediate_of(layer)), [6144, 12_288]);
        assert_eq!(c.input_width(), 1536 + 35 * 256);
        assert!(c.tied && c.has_keys(14) && !c.has_keys(15));
    }

    #[test]
    fn what_the_larger_sizes_have_is_refused_by_name() {
        for (key, value) in [
            ("attention_k_eq_v", json!(true)),
            ("enable_moe_block", json!(true)),
            ("use_bidirectional_attention", json!("vision")),
            ("hidden_activation", json!("relu")),
            ("sliding_window", json!(0)),
            ("num_kv_shared_layers", json!(35)),
            ("pad_token_id", json!(300_000)),
            ("layer_types", json!(["full_attention"])),
            ("rope_parameters", json!({"full_attention": {"rope_type": "yarn"}})),
        ] {
            let mut config = e2b();
            config["text_config"][key] = value;
            let error = VlConfig::resolve(config).unwrap_err();
            assert!(error.contains(key), "{key}: {error}");
        }
    }
}
