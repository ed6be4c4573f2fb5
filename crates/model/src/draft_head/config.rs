//! `config.json` of a draft head.

use serde::{Deserialize, Serialize};

use super::{assistant::AssistantConfig, dflash::BlockConfig};
use crate::config::TextConfig;

/// `model_type` of a draft head's checkpoint.
pub const MODEL_TYPE: &str = "specreel_sparrow";

/// How a draft head was trained, and hence how it drafts best.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recipe {
    /// Sparrow: drafts without looking at the video.
    #[default]
    Sparrow,
    /// MSD: reads the visual embeddings before the text.
    Msd,
    /// ViSpec: reads the visual embeddings compressed to a few rows, and a vector that sums them up in every text row.
    Vispec,
    /// HiViS: has learned from text rows alone, the target's states describe the video.
    Hivis,
    /// EAGLE-3: reads states after some of the target's layers, usually three, and has an LM head over a part of the vocabulary.
    Eagle3,
    /// The target's own layer for multi-token prediction, in the target's checkpoint.
    Mtp,
    /// DFlash: drafts a block in one pass, from keys and values of the target's states after several layers.
    Dflash,
    /// An assistant: attends to the target's own keys and values (Gemma 4).
    Assistant,
}

impl Recipe {
    pub const ALL: [Recipe; 8] = [
        Recipe::Sparrow,
        Recipe::Msd,
        Recipe::Vispec,
        Recipe::Hivis,
        Recipe::Eagle3,
        Recipe::Mtp,
        Recipe::Dflash,
        Recipe::Assistant,
    ];

    /// Its name in methods, files and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Recipe::Sparrow => "sparrow",
            Recipe::Msd => "msd",
            Recipe::Vispec => "vispec",
            Recipe::Hivis => "hivis",
            Recipe::Eagle3 => "eagle3",
            Recipe::Mtp => "mtp",
            Recipe::Dflash => "dflash",
            Recipe::Assistant => "assistant",
        }
    }

    /// How to get such a head, as a hint.
    pub const fn hint(self) -> &'static str {
        match self {
            Recipe::Sparrow => {
                "train one for this target with `specreel-lab train sparrow`, and add --drafter DIR"
            }
            Recipe::Msd => "train one for this target with `specreel-lab train msd`, and add --drafter DIR",
            Recipe::Vispec => {
                "train one for this target with `specreel-lab train vispec`, and add --drafter DIR"
            }
            Recipe::Hivis => {
                "train one for this target with `specreel-lab train hivis`, and add --drafter DIR"
            }
            Recipe::Eagle3 => {
                "download the head that was published for this target, or train one with `specreel-lab train eagle3`, and add --drafter DIR"
            }
            Recipe::Mtp => {
                "use a target whose files have one (Qwen3.5: tensors `mtp.…`), or the method sparrow with a head that you train"
            }
            Recipe::Dflash => {
                "download the head that was published for this target, or train one with `specreel-lab train dflash`, and add --drafter DIR"
            }
            Recipe::Assistant => {
                "download the assistant that was published for this target (Gemma 4: …-it-assistant), and add --drafter DIR"
            }
        }
    }
}

/// Inputs at the rows of visual tokens, if the head sees any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VisualRows {
    /// The target's states after half of its layers (Sparrow's IVSB).
    #[default]
    Middle,
    /// The target's visual embeddings as they are (MSD).
    Embeddings,
}

/// The target that a draft head was trained for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetIdentity {
    /// The target's display name.
    pub name: String,
    /// Width of its states.
    pub hidden_size: usize,
    /// Rows of its embedding table.
    pub vocab_size: usize,
    /// Number of its layers; 0 in published heads, which do not say it.
    pub num_hidden_layers: usize,
    /// A hash of some of its embeddings; empty in published heads, which do not say it.
    pub fingerprint: String,
}

impl TargetIdentity {
    /// The first difference from another target, as a clause of an error message; `None` if they are the same model.
    pub fn difference(&self, other: &TargetIdentity) -> Option<String> {
        let sizes = [
            ("hidden_size", self.hidden_size, other.hidden_size),
            ("vocab_size", self.vocab_size, other.vocab_size),
            ("num_hidden_layers", self.num_hidden_layers, other.num_hidden_layers),
        ];
        let differs = |(_, expected, found): &(_, usize, usize)| *expected > 0 && expected != found;
        if let Some((key, expected, found)) = sizes.into_iter().find(differs) {
            return Some(format!("it expects a `{key}` of {expected}, this target has {found}"));
        }
        (!self.fingerprint.is_empty() && self.fingerprint != other.fingerprint)
            .then(|| format!("it expects `{}`, this target has other weights", self.name))
    }
}

/// The contents of the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DraftHeadConfig {
    pub model_type: String,
    /// How it was trained.
    pub recipe: Recipe,
    /// The head's inputs at visual tokens.
    pub visual_rows: VisualRows,
    /// Width of the feed-forward layer.
    pub(crate) intermediate_size: usize,
    pub(crate) num_attention_heads: usize,
    pub(crate) num_key_value_heads: usize,
    pub head_dim: usize,
    /// Base of the rotary frequencies.
    pub rope_theta: f64,
    /// Frequencies for time, row and column.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mrope_section: Option<[usize; 3]>,
    /// True if the three axes alternate over the frequencies.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) mrope_interleaved: bool,
    /// True if queries, keys and values have biases.
    #[serde(default = "biases", skip_serializing_if = "Clone::clone")]
    pub(crate) attention_bias: bool,
    /// True if queries and keys are normed in each head.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub qk_norm: bool,
    /// Added to the mean square in norms.
    pub(crate) rms_norm_eps: f32,
    /// The target it was trained for.
    pub target: TargetIdentity,
    /// Queries of the adaptor that compresses the visual tokens of a ViSpec head; 0 = it has none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub num_queries: usize,
    /// What only an EAGLE-3 head has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eagle3: Option<Eagle3Config>,
    /// What only a DFlash head has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dflash: Option<BlockConfig>,
    /// What only an assistant has, which is in published files alone.
    #[serde(skip)]
    pub assistant: Option<AssistantConfig>,
}

/// The form of a trained head's layer for a target: as the target's layers with full attention, where all of a head is
/// rotated, nothing is gated, norms hold their weights, and the experts of a row are one dense feed-forward layer.
pub fn layer_of(target: &TextConfig) -> TextConfig {
    let third = target.head_dim / 6;
    let even = [target.head_dim / 2 - 2 * third, third, third];
    let whole = target.rotary_dim == target.head_dim;
    TextConfig {
        mrope_section: target.mrope_section.map(|section| if whole { section } else { even }),
        output_gate: false,
        rotary_dim: target.head_dim,
        norm_offset: false,
        linear: None,
        sparse: None,
        gemma: None,
        assists: None,
        intermediate: target.active_intermediate(last_attention_layer(target)),
        ..target.clone()
    }
}

/// The last layer with full attention and keys of its own, from which a head's layer is initialized.
pub fn last_attention_layer(target: &TextConfig) -> usize {
    let is_whole =
        |layer: &usize| !target.is_linear(*layer) && !target.is_sliding(*layer) && target.has_keys(*layer);
    (0..target.layers).rfind(is_whole).unwrap_or_default()
}

/// What only an EAGLE-3 head has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Eagle3Config {
    /// Rows of its LM head.
    pub draft_vocab: usize,
    /// Layers of the target after which states are read (0 = the first); `None` = EAGLE-3's choice.
    pub layers: Option<Vec<usize>>,
    /// True if the normed state is the residual, not the state.
    #[serde(default)]
    pub(crate) norm_before_residual: bool,
    /// True if the target's states are normed together before they are projected.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) norm_before_fc: bool,
    /// True if each of the target's states is normed before they are projected (EAGLE 3.1).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) fc_norm: bool,
    /// True if the normed output takes the place of states that the target has not computed yet, not the output before the norm (EAGLE
    /// 3.1).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) norm_output: bool,
}

impl Eagle3Config {
    /// The configuration of a head to be trained: it shares the target's LM head and reads EAGLE-3's layers,
    /// or the first, middle and last layer if the target has fewer than six.
    pub fn like(target: &TextConfig) -> Self {
        let own = Self { draft_vocab: target.vocab, ..Self::default() };
        let last = target.layers.saturating_sub(1);
        let layers = own.taps(target).unwrap_or_else(|_| vec![0, last / 2, last]);
        Self { layers: Some(layers), ..own }
    }

    /// The tapped layers of a target: as the head says, or EAGLE-3's low, middle and high one.
    pub(super) fn taps(&self, target: &TextConfig) -> Result<Vec<usize>, String> {
        let count = target.layers;
        let taps = match &self.layers {
            Some(layers) => layers.clone(),
            None if count < 6 => {
                return Err(format!("a target of {count} layers has no low, middle and high one"));
            }
            None => vec![1, count / 2 - 1, count - 4],
        };
        match taps.iter().find(|layer| **layer >= count) {
            Some(layer) => {
                Err(format!("it reads states after layer {layer} (0 = the first), this target has {count}"))
            }
            None => Ok(taps),
        }
    }
}

/// Queries of ViSpec's adaptor: one row in place of the visual tokens, and the vector for text rows.
pub const QUERIES: usize = 2;

fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// Files that do not say it have biases.
fn biases() -> bool {
    true
}

impl DraftHeadConfig {
    /// A head whose layer has the shape of the target's own.
    pub fn like(
        target: &TextConfig,
        identity: TargetIdentity,
        recipe: Recipe,
        visual_rows: VisualRows,
    ) -> Self {
        let target = &layer_of(target);
        Self {
            model_type: MODEL_TYPE.into(),
            recipe,
            visual_rows,
            intermediate_size: target.intermediate,
            num_attention_heads: target.heads,
            num_key_value_heads: target.kv_heads,
            head_dim: target.head_dim,
            rope_theta: target.rope_theta,
            mrope_section: target.mrope_section,
            mrope_interleaved: target.interleaved,
            attention_bias: target.bias,
            qk_norm: target.qk_norm,
            rms_norm_eps: target.norm_eps,
            target: identity,
            num_queries: if recipe == Recipe::Vispec { QUERIES } else { 0 },
            eagle3: None,
            dflash: None,
            assistant: None,
        }
    }

    /// The same for a head that drafts blocks (DFlash): as published ones, its layers norm queries and keys and have no biases.
    /// `intermediate` is the width of its feed-forward layers, if it is another one.
    pub fn with_blocks(self, intermediate: Option<usize>, block: BlockConfig) -> Self {
        Self {
            intermediate_size: intermediate.unwrap_or(self.intermediate_size),
            attention_bias: false,
            qk_norm: true,
            dflash: Some(block),
            ..self
        }
    }

    /// The same for an EAGLE-3 head: its layer neither norms queries and keys nor has biases.
    pub fn with_eagle3(self, eagle3: Eagle3Config) -> Self {
        Self { attention_bias: false, qk_norm: false, eagle3: Some(eagle3), ..self }
    }

    /// What is impossible about it.
    pub(super) fn problem(&self) -> Option<String> {
        let (heads, kv, half) = (self.num_attention_heads, self.num_key_value_heads, self.head_dim / 2);
        let sizes = [
            ("intermediate_size", self.intermediate_size, 1 << 20),
            ("num_attention_heads", heads, 1024),
            ("num_key_value_heads", kv, 1024),
            ("head_dim", self.head_dim, 1024),
        ];
        if let Some((key, value, limit)) = sizes.into_iter().find(|(_, v, limit)| *v == 0 || v > limit) {
            return Some(format!("`{key}` is {value}, expected 1 to {limit}"));
        }
        if (self.recipe == Recipe::Vispec) != (self.num_queries > 0) || self.num_queries > 256 {
            let recipe = self.recipe.name();
            return Some(format!(
                "`num_queries` is {}, a head of the recipe {recipe} has {}",
                self.num_queries,
                if self.recipe == Recipe::Vispec { "1 to 256" } else { "none" }
            ));
        }
        if let Some(problem) = self.dflash.as_ref().and_then(|block| block.problem(self.target.hidden_size)) {
            return Some(problem);
        }
        for (key, recipe, has) in [
            ("dflash", Recipe::Dflash, self.dflash.is_some()),
            ("eagle3", Recipe::Eagle3, self.eagle3.is_some()),
            ("assistant", Recipe::Assistant, self.assistant.is_some()),
        ] {
            if (self.recipe == recipe) != has {
                return Some(format!("`{key}` does not go with the recipe {}", self.recipe.name()));
            }
        }
        if !heads.is_multiple_of(kv) {
            return Some(format!(
                "`num_attention_heads` ({heads}) is not a multiple of `num_key_value_heads` ({kv})"
            ));
        }
        let sum = |s: [usize; 3]| s.iter().try_fold(0usize, |sum, n| sum.checked_add(*n));
        if !self.head_dim.is_multiple_of(2) || self.mrope_section.is_some_and(|s| sum(s) != Some(half)) {
            return Some(format!(
                "`mrope_section` does not add up to half of `head_dim` ({})",
                self.head_dim
            ));
        }
        let good = self.rope_theta.is_finite() && self.rope_theta > 0.0 && self.rms_norm_eps.is_finite();
        (!good).then(|| "`rope_theta` must be positive, and `rms_norm_eps` finite".into())
    }

    /// The head's layer as a language model of one layer that shares the target's embeddings.
    pub fn layer(&self, target: &TextConfig) -> TextConfig {
        TextConfig {
            layers: 1,
            heads: self.num_attention_heads,
            kv_heads: self.num_key_value_heads,
            head_dim: self.head_dim,
            intermediate: self.intermediate_size,
            rope_theta: self.rope_theta,
            mrope_section: self.mrope_section,
            interleaved: self.mrope_interleaved,
            bias: self.attention_bias,
            qk_norm: self.qk_norm,
            output_gate: false,
            rotary_dim: self.head_dim,
            norm_offset: false,
            linear: None,
            sparse: None,
            gemma: None,
            assists: None,
            convolution: self.dflash.as_ref().and_then(|block| block.convolution),
            deepstack: 0,
            norm_eps: self.rms_norm_eps,
            ..target.clone()
        }
    }
}

#[cfg(test)]
mod tests;
