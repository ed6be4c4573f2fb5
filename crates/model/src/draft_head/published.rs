//! `config.json` of an EAGLE-3 head in the published layout.

use serde::Deserialize;

use super::config::{DraftHeadConfig, MODEL_TYPE, Recipe, TargetIdentity, VisualRows};

/// Its name among the architectures of a `config.json`.
const ARCHITECTURE: &str = "LlamaForCausalLMEagle3";

/// What only an EAGLE-3 head has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Eagle3Config {
    /// Rows of its LM head.
    pub draft_vocab: usize,
    /// Layers of the target after which states are read (0 = the first); none = EAGLE-3's choice.
    pub layers: Option<Vec<usize>>,
    /// True if the normed state is the residual, not the state.
    pub(crate) norm_before_residual: bool,
}

#[derive(Deserialize)]
struct EagleKeys {
    #[serde(default)]
    eagle_aux_hidden_state_layer_ids: Option<Vec<usize>>,
}

/// The published file. Unknown keys are ignored, those that would change the result are checked.
#[derive(Deserialize)]
struct Published {
    hidden_size: usize,
    #[serde(default)]
    target_hidden_size: Option<usize>,
    intermediate_size: usize,
    num_attention_heads: usize,
    #[serde(default)]
    num_key_value_heads: Option<usize>,
    #[serde(default)]
    head_dim: Option<usize>,
    #[serde(default = "one")]
    num_hidden_layers: usize,
    rms_norm_eps: f32,
    #[serde(default = "theta")]
    rope_theta: f64,
    #[serde(default)]
    rope_scaling: Option<serde_json::Value>,
    #[serde(default = "silu")]
    hidden_act: String,
    #[serde(default)]
    mlp_bias: bool,
    vocab_size: usize,
    #[serde(default)]
    draft_vocab_size: Option<usize>,
    #[serde(default)]
    norm_before_residual: bool,
    #[serde(default)]
    quantization_config: Option<serde_json::Value>,
    #[serde(default)]
    eagle_config: Option<EagleKeys>,
    #[serde(flatten)]
    outside: EagleKeys,
}

fn one() -> usize {
    1
}

fn theta() -> f64 {
    10_000.0
}

fn silu() -> String {
    "silu".into()
}

/// True for the text of a published `config.json`.
pub(super) fn is_published(text: &str) -> bool {
    #[derive(Deserialize)]
    struct Kind {
        architectures: Vec<String>,
    }
    serde_json::from_str::<Kind>(text).is_ok_and(|kind| kind.architectures.iter().any(|a| a == ARCHITECTURE))
}

/// The configuration in a published `config.json`.
/// Errors: a key is missing, or the head computes what is not supported.
pub(super) fn read(text: &str) -> Result<DraftHeadConfig, String> {
    let raw: Published = serde_json::from_str(text).map_err(|e| e.to_string())?;
    let rope = Rope::of(raw.rope_scaling.as_ref())?;
    let refused = [
        (raw.num_hidden_layers != 1, format!("`num_hidden_layers` is {}, expected 1", raw.num_hidden_layers)),
        (raw.hidden_act != "silu", format!("`hidden_act` is {}, expected silu", raw.hidden_act)),
        (raw.mlp_bias, "`mlp_bias` is true, expected false".into()),
        (raw.quantization_config.is_some(), "its weights are quantized, expected f32, f16 or bf16".into()),
        (
            raw.target_hidden_size.is_some_and(|size| size != raw.hidden_size),
            "`target_hidden_size` differs from `hidden_size`: it needs embeddings of its own".into(),
        ),
    ];
    if let Some((_, problem)) = refused.into_iter().find(|(is_refused, _)| *is_refused) {
        return Err(problem);
    }
    // Inside of `eagle_config` a number is that of the layer; outside (vLLM's layout) 0 is the embedding, 1 the first layer.
    let inside = raw.eagle_config.and_then(|keys| keys.eagle_aux_hidden_state_layer_ids);
    let outside = raw.outside.eagle_aux_hidden_state_layer_ids.map(|layers| {
        let numbers = layers.iter().map(|layer| layer.checked_sub(1));
        numbers
            .collect::<Option<Vec<_>>>()
            .ok_or("`eagle_aux_hidden_state_layer_ids` begins with the embedding (0)")
    });
    let layers = match inside {
        Some(layers) => Some(layers),
        None => outside.transpose()?,
    };
    if layers.as_ref().is_some_and(|layers| layers.len() != 3) {
        return Err("`eagle_aux_hidden_state_layer_ids` names other than three layers".into());
    }
    Ok(DraftHeadConfig {
        model_type: MODEL_TYPE.into(),
        recipe: Recipe::Eagle3,
        visual_rows: VisualRows::Embeddings,
        intermediate_size: raw.intermediate_size,
        num_attention_heads: raw.num_attention_heads,
        num_key_value_heads: raw.num_key_value_heads.unwrap_or(raw.num_attention_heads),
        head_dim: raw.head_dim.unwrap_or(raw.hidden_size / raw.num_attention_heads.max(1)),
        rope_theta: raw.rope_theta,
        mrope_section: rope.section,
        mrope_interleaved: rope.interleaved,
        attention_bias: false,
        qk_norm: false,
        rms_norm_eps: raw.rms_norm_eps,
        target: TargetIdentity {
            name: String::new(),
            hidden_size: raw.hidden_size,
            vocab_size: raw.vocab_size,
            num_hidden_layers: 0,
            fingerprint: String::new(),
        },
        num_queries: 0,
        eagle3: Some(Eagle3Config {
            draft_vocab: raw.draft_vocab_size.unwrap_or(raw.vocab_size),
            layers,
            norm_before_residual: raw.norm_before_residual,
        }),
    })
}

/// Its rotary positions: on one axis, or on the target's three.
struct Rope {
    section: Option<[usize; 3]>,
    interleaved: bool,
}

impl Rope {
    fn of(scaling: Option<&serde_json::Value>) -> Result<Self, String> {
        let text = |key: &str| scaling.and_then(|s| s.get(key)).and_then(|v| v.as_str());
        let kind = text("rope_type").or(text("type")).unwrap_or("default");
        if !["default", "mrope"].contains(&kind) {
            return Err(format!("`rope_scaling` is of the type {kind}, expected default or mrope"));
        }
        let section = scaling.and_then(|s| s.get("mrope_section")).map(|s| {
            serde_json::from_value(s.clone()).map_err(|_| "`mrope_section` does not hold three numbers")
        });
        let interleaved = scaling.and_then(|s| s.get("mrope_interleaved")).and_then(|v| v.as_bool());
        Ok(Self { section: section.transpose()?, interleaved: interleaved.unwrap_or(false) })
    }
}

#[cfg(test)]
#[path = "published_tests.rs"]
mod tests;
