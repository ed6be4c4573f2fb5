//! `config.json` of a head in the published layouts. EAGLE-3: EAGLE's and SpecForge's, flat, and the layout of *speculators*, with
//! the layer under `transformer_layer_config`. DFlash: z-lab's, flat, with its own keys under `dflash_config`. Assistants: Google's.

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use super::{
    assistant,
    config::{DraftHeadConfig, Eagle3Config, MODEL_TYPE, Recipe, TargetIdentity, VisualRows},
    dflash::{BlockAttention, BlockConfig, usual_layers},
    selector::SelectorConfig,
};
use specreel_tensor::convolution::ConvolutionShape;

/// Its names among the architectures of a flat `config.json`. vLLM's registry maps all of them to one layer.
const ARCHITECTURES: [&str; 5] = [
    "LlamaForCausalLMEagle3",
    "Eagle3LlamaForCausalLM",
    "Eagle3Qwen2_5vlForCausalLM",
    "Eagle3Qwen3vlForCausalLM",
    "Eagle3MiniMaxM2ForCausalLM",
];

/// States of the target that a head reads where its file does not name their layers.
const USUAL_STATES: usize = 3;
/// Most states of the target that a head reads.
const MOST_STATES: usize = 16;

/// Heads of other kinds, by their architectures.
const OTHERS: [(&str, &str); 7] = [
    ("EagleLlamaForCausalLM", "EAGLE"),
    ("EagleLlama4ForCausalLM", "EAGLE"),
    ("EagleMistralForCausalLM", "EAGLE"),
    ("PEagleDraftModel", "P-EAGLE"),
    ("PeagleLlamaForCausalLM", "P-EAGLE"),
    ("DSparkDraftModel", "DSpark"),
    ("Gemma4UnifiedAssistantForCausalLM", "Gemma 4 12B"),
];

/// A DFlash head, and one with convolutions and a selector.
const DFLASH: [&str; 2] = ["DFlashDraftModel", DFLASH2];
const DFLASH2: &str = "DFlash2DraftModel";

/// `speculators_model_type` of an EAGLE-3 head.
const SPECULATORS: &str = "eagle3";

/// The keys that identify a draft head.
#[derive(Deserialize)]
struct RawKind {
    #[serde(default)]
    architectures: Vec<String>,
    speculators_model_type: Option<String>,
}

impl RawKind {
    fn is_named(&self, name: &str) -> bool {
        self.architectures.iter().any(|own| own == name)
    }

    fn is_eagle3(&self) -> bool {
        ARCHITECTURES.iter().any(|name| self.is_named(name))
    }

    fn is_assistant(&self) -> bool {
        self.is_named(assistant::ARCHITECTURE)
    }

    fn is_dflash(&self) -> bool {
        self.speculators_model_type.is_none() && DFLASH.iter().any(|name| self.is_named(name))
    }

    fn other(&self) -> Option<&'static str> {
        OTHERS.iter().find(|(name, _)| self.is_named(name)).map(|(_, kind)| *kind)
    }
}

/// The layer. Unknown keys are ignored, those that would change the result are checked.
#[derive(Deserialize)]
struct RawLayer {
    hidden_size: usize,
    intermediate_size: usize,
    num_attention_heads: usize,
    num_key_value_heads: Option<usize>,
    head_dim: Option<usize>,
    #[serde(default = "one")]
    num_hidden_layers: usize,
    rms_norm_eps: f32,
    rope_theta: Option<f64>,
    rope_scaling: Option<Value>,
    rope_parameters: Option<Value>,
    #[serde(default = "silu")]
    hidden_act: String,
    #[serde(default)]
    mlp_bias: bool,
    #[serde(default)]
    use_sliding_window: bool,
    vocab_size: usize,
}

/// The keys that are not the layer's. In the flat layout both are at the top level.
#[derive(Deserialize)]
struct RawHead {
    target_hidden_size: Option<usize>,
    draft_vocab_size: Option<usize>,
    norm_before_residual: Option<bool>,
    #[serde(default)]
    norm_before_fc: bool,
    #[serde(default)]
    fc_norm: bool,
    #[serde(default)]
    norm_output: bool,
    num_aux_hidden_states: Option<usize>,
    quantization_config: Option<Value>,
    eagle_config: Option<RawTaps>,
    #[serde(flatten)]
    outside: RawTaps,
    speculators_config: Option<RawSpeculators>,
}

#[derive(Deserialize)]
struct RawTaps {
    eagle_aux_hidden_state_layer_ids: Option<Vec<usize>>,
    use_aux_hidden_state: Option<bool>,
}

#[derive(Deserialize)]
struct RawSpeculators {
    verifier: Option<RawVerifier>,
}

#[derive(Deserialize)]
struct RawVerifier {
    name_or_path: Option<String>,
}

fn one() -> usize {
    1
}

fn silu() -> String {
    "silu".into()
}

/// True for the text of a published `config.json` of a draft head, of which some are refused.
pub(super) fn is_published(text: &str) -> bool {
    serde_json::from_str::<RawKind>(text).is_ok_and(|kind| {
        kind.speculators_model_type.is_some()
            || kind.is_eagle3()
            || kind.is_dflash()
            || kind.is_assistant()
            || kind.other().is_some()
    })
}

/// The configuration in a published `config.json`.
/// Errors: a key is missing, or the head's computation is not supported.
pub(super) fn read(text: &str) -> Result<DraftHeadConfig, String> {
    fn parse<T: DeserializeOwned>(value: &Value) -> Result<T, String> {
        T::deserialize(value).map_err(|e| e.to_string())
    }
    let raw: Value = serde_json::from_str(text).map_err(|e| e.to_string())?;
    let kind: RawKind = parse(&raw)?;
    if kind.is_assistant() {
        return assistant::read(&raw);
    }
    if kind.is_dflash() {
        return resolve_blocks(parse(&raw)?, parse(&raw)?, kind.is_named(DFLASH2));
    }
    let head: RawHead = parse(&raw)?;
    let (layer, norm_before_residual) = match kind.speculators_model_type.as_deref() {
        Some(SPECULATORS) => {
            let layer = raw.get("transformer_layer_config").ok_or("missing `transformer_layer_config`")?;
            // Its default is another one in vLLM than in speculators.
            let normed = head.norm_before_residual.ok_or("missing `norm_before_residual`")?;
            (parse(layer).map_err(|problem| format!("`transformer_layer_config`: {problem}"))?, normed)
        }
        Some(other) => {
            return Err(format!("`speculators_model_type` is {other}, expected {SPECULATORS}"));
        }
        None => match kind.other().filter(|_| !kind.is_eagle3()) {
            Some(other) => {
                return Err(format!(
                    "a draft head of {other}, expected one of EAGLE-3, DFlash or an assistant"
                ));
            }
            None => (parse(&raw)?, head.norm_before_residual.unwrap_or(false)),
        },
    };
    resolve(layer, head, norm_before_residual)
}

fn resolve(layer: RawLayer, head: RawHead, norm_before_residual: bool) -> Result<DraftHeadConfig, String> {
    let rope = Rope::of(layer.rope_scaling.as_ref().or(layer.rope_parameters.as_ref()))?;
    let unused = head.eagle_config.as_ref().and_then(|keys| keys.use_aux_hidden_state) == Some(false);
    let refused = [
        (
            layer.num_hidden_layers != 1,
            format!("`num_hidden_layers` is {}, expected 1", layer.num_hidden_layers),
        ),
        (layer.hidden_act != "silu", format!("`hidden_act` is {}, expected silu", layer.hidden_act)),
        (layer.mlp_bias, "`mlp_bias` is true, expected false".into()),
        (layer.use_sliding_window, "`use_sliding_window` is true, expected false".into()),
        (unused, "`use_aux_hidden_state` is false, expected true".into()),
        (head.quantization_config.is_some(), "its weights are quantized, expected f32, f16 or bf16".into()),
        (
            head.target_hidden_size.is_some_and(|size| size != layer.hidden_size),
            "`target_hidden_size` differs from `hidden_size`: it needs embeddings of its own".into(),
        ),
    ];
    if let Some((_, problem)) = refused.into_iter().find(|(is_refused, _)| *is_refused) {
        return Err(problem);
    }
    // Inside of `eagle_config` a number is a layer's; outside (vLLM's and speculators' numbers) 0 is the embedding, 1
    // the first layer.
    let inside = head.eagle_config.and_then(|keys| keys.eagle_aux_hidden_state_layer_ids);
    let outside = head.outside.eagle_aux_hidden_state_layer_ids.map(|layers| {
        let numbers = layers.iter().map(|layer| layer.checked_sub(1));
        numbers
            .collect::<Option<Vec<_>>>()
            .ok_or("`eagle_aux_hidden_state_layer_ids` begins with the embedding (0)")
    });
    let layers = match inside {
        Some(layers) => Some(layers),
        None => outside.transpose()?,
    };
    let named = layers.as_ref().map_or(USUAL_STATES, Vec::len);
    let read = head.num_aux_hidden_states.unwrap_or(named);
    if read != named || !(1..=MOST_STATES).contains(&named) {
        return Err(format!(
            "the head reads {read} states, and `eagle_aux_hidden_state_layer_ids` names {named} layers, expected as many, up to \
             {MOST_STATES}"
        ));
    }
    let verifier = head.speculators_config.and_then(|config| config.verifier?.name_or_path);
    let described = described(Recipe::Eagle3, &layer, rope);
    Ok(DraftHeadConfig {
        target: TargetIdentity { name: verifier.unwrap_or_default(), ..described.target },
        eagle3: Some(Eagle3Config {
            draft_vocab: head.draft_vocab_size.unwrap_or(layer.vocab_size),
            layers,
            norm_before_residual,
            norm_before_fc: head.norm_before_fc,
            fc_norm: head.fc_norm,
            norm_output: head.norm_output,
        }),
        ..described
    })
}

/// The keys of a DFlash head that are not the layers'.
#[derive(Deserialize)]
struct RawBlocks {
    num_target_layers: Option<usize>,
    layer_types: Option<Vec<String>>,
    sliding_window: Option<usize>,
    is_causal: Option<bool>,
    #[serde(default)]
    attention_bias: bool,
    quantization_config: Option<Value>,
    dflash_config: Option<RawBlock>,
    #[serde(flatten)]
    outside: RawBlock,
}

/// Keys that are under `dflash_config`, or in some files at the top level.
#[derive(Deserialize)]
struct RawBlock {
    block_size: Option<usize>,
    mask_token_id: Option<u32>,
    target_layer_ids: Option<Vec<usize>>,
    output_multiplier: Option<f64>,
    final_logit_softcapping: Option<f64>,
    input_embedding_scale: Option<f64>,
    conv_kernel_size: Option<usize>,
    conv_group_size: Option<usize>,
    selector_rank: Option<usize>,
    selector_top_k: Option<usize>,
}

/// A pair of keys of DFlash 2, which an older head has neither of.
fn pair(
    (first, second): (&str, &str),
    [a, b]: [Option<usize>; 2],
    is_second: bool,
) -> Result<Option<(usize, usize)>, String> {
    match (a, b) {
        (Some(a), Some(b)) => Ok(Some((a, b))),
        (None, None) if !is_second => Ok(None),
        (Some(_), None) => Err(format!("missing `{second}` under `dflash_config`")),
        _ => Err(format!("missing `{first}` under `dflash_config`")),
    }
}

/// Rows of a block where a description does not say it.
const USUAL_BLOCK: usize = 16;

fn resolve_blocks(layer: RawLayer, head: RawBlocks, is_second: bool) -> Result<DraftHeadConfig, String> {
    let rope = Rope::of(layer.rope_scaling.as_ref().or(layer.rope_parameters.as_ref()))?;
    let inside = head.dflash_config.as_ref();
    let scales = [inside, Some(&head.outside)].into_iter().flatten().flat_map(|keys| {
        [
            ("output_multiplier", keys.output_multiplier, 1.0),
            ("final_logit_softcapping", keys.final_logit_softcapping, 0.0),
            ("input_embedding_scale", keys.input_embedding_scale, 1.0),
        ]
    });
    let scaled = scales.filter_map(|(key, value, usual)| Some((key, value?, usual)));
    if let Some((key, value, usual)) = scaled.into_iter().find(|(_, value, usual)| value != usual) {
        return Err(format!("`{key}` is {value}, expected {usual}"));
    }
    for (is_refused, problem) in [
        (layer.hidden_act != "silu", format!("`hidden_act` is {}, expected silu", layer.hidden_act)),
        (layer.mlp_bias, "`mlp_bias` is true, expected false".into()),
        (head.attention_bias, "`attention_bias` is true, expected false".into()),
        (head.quantization_config.is_some(), "its weights are quantized, expected f32, f16 or bf16".into()),
    ] {
        if is_refused {
            return Err(problem);
        }
    }
    let count = layer.num_hidden_layers;
    let types = head.layer_types.unwrap_or_else(|| vec!["full_attention".into(); count]);
    if types.len() != count {
        return Err(format!("`layer_types` names {} layers, `num_hidden_layers` is {count}", types.len()));
    }
    let attention = |kind: &String| match kind.as_str() {
        "full_attention" => Ok(BlockAttention { window: None, causal: head.is_causal.unwrap_or(false) }),
        // Such layers are causal where a file does not say it.
        "sliding_attention" => match head.sliding_window {
            Some(window) => {
                Ok(BlockAttention { window: Some(window), causal: head.is_causal.unwrap_or(true) })
            }
            None => Err("missing `sliding_window`, which layers of `layer_types` need".to_owned()),
        },
        other => Err(format!("`layer_types` has {other}, expected full_attention or sliding_attention")),
    };
    let layers = types.iter().map(attention).collect::<Result<_, _>>()?;
    let block = |key: fn(&RawBlock) -> Option<usize>| inside.and_then(key).or(key(&head.outside));
    let mask = inside.and_then(|keys| keys.mask_token_id).or(head.outside.mask_token_id);
    let named =
        inside.and_then(|keys| keys.target_layer_ids.clone()).or(head.outside.target_layer_ids.clone());
    let read = named.or_else(|| Some(usual_layers(head.num_target_layers?, count)));
    let convolution = [block(|keys| keys.conv_kernel_size), block(|keys| keys.conv_group_size)];
    let convolution = pair(("conv_kernel_size", "conv_group_size"), convolution, is_second)?;
    let selector = [block(|keys| keys.selector_rank), block(|keys| keys.selector_top_k)];
    let selector = pair(("selector_rank", "selector_top_k"), selector, is_second)?;
    let described = described(Recipe::Dflash, &layer, rope);
    let num_hidden_layers = head.num_target_layers.unwrap_or(0);
    Ok(DraftHeadConfig {
        qk_norm: true,
        target: TargetIdentity { num_hidden_layers, ..described.target },
        dflash: Some(BlockConfig {
            block_size: block(|keys| keys.block_size).unwrap_or(USUAL_BLOCK),
            mask_token_id: mask.ok_or("missing `mask_token_id` under `dflash_config`")?,
            target_layer_ids: read
                .ok_or("missing `target_layer_ids` under `dflash_config`, and `num_target_layers`")?,
            layers,
            convolution: convolution.map(|(taps, group)| ConvolutionShape { taps, group }),
            selector: selector.map(|(rank, candidates)| SelectorConfig { rank, candidates }),
        }),
        ..described
    })
}

/// The part of a head's configuration that all published layouts share.
fn described(recipe: Recipe, layer: &RawLayer, rope: Rope) -> DraftHeadConfig {
    DraftHeadConfig {
        model_type: MODEL_TYPE.into(),
        recipe,
        visual_rows: VisualRows::Embeddings,
        intermediate_size: layer.intermediate_size,
        num_attention_heads: layer.num_attention_heads,
        num_key_value_heads: layer.num_key_value_heads.unwrap_or(layer.num_attention_heads),
        head_dim: layer.head_dim.unwrap_or(layer.hidden_size / layer.num_attention_heads.max(1)),
        rope_theta: layer.rope_theta.or(rope.theta).unwrap_or(10_000.0),
        mrope_section: rope.section,
        mrope_interleaved: rope.interleaved,
        attention_bias: false,
        qk_norm: false,
        rms_norm_eps: layer.rms_norm_eps,
        target: TargetIdentity {
            name: String::new(),
            hidden_size: layer.hidden_size,
            vocab_size: layer.vocab_size,
            num_hidden_layers: 0,
            fingerprint: String::new(),
        },
        num_queries: 0,
        eagle3: None,
        dflash: None,
        assistant: None,
    }
}

/// Its rotary positions: on one axis, or on the target's three.
struct Rope {
    section: Option<[usize; 3]>,
    interleaved: bool,
    theta: Option<f64>,
}

impl Rope {
    fn of(scaling: Option<&Value>) -> Result<Self, String> {
        let text = |key: &str| scaling.and_then(|s| s.get(key)).and_then(|v| v.as_str());
        let kind = text("rope_type").or(text("type")).unwrap_or("default");
        if !["default", "mrope"].contains(&kind) {
            return Err(format!("`rope_scaling` is of the type {kind}, expected default or mrope"));
        }
        let section = scaling.and_then(|s| s.get("mrope_section")).map(|s| {
            serde_json::from_value(s.clone()).map_err(|_| "`mrope_section` does not hold three numbers")
        });
        let interleaved = scaling.and_then(|s| s.get("mrope_interleaved")).and_then(|v| v.as_bool());
        let theta = scaling.and_then(|s| s.get("rope_theta")).and_then(Value::as_f64);
        Ok(Self { section: section.transpose()?, interleaved: interleaved.unwrap_or(false), theta })
    }
}

#[cfg(test)]
mod tests;
