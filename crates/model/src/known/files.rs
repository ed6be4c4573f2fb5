//! Sizes of published files, from the shapes of their tensors.

use crate::{config::TextConfig, decoder::parts, draft_head::mtp};

/// What safetensors files hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stored {
    /// The model, in 16 bits.
    Model,
    /// The model, in 32 bits.
    F32,
    /// The model and its layer for multi-token prediction, in 16 bits.
    Predicting,
    /// The model and a copy of the embeddings as LM head, in 16 bits.
    HeadCopy,
    /// The model and an audio encoder of about 300 million parameters, in 16 bits.
    Hearing,
}

impl Stored {
    /// Bytes of a model with so many parameters.
    pub fn bytes(self, text: &TextConfig, parameters: u64) -> u64 {
        match self {
            Self::Model => 2 * parameters,
            Self::F32 => 4 * parameters,
            Self::Predicting => 2 * (parameters + mtp::parameters(text)),
            Self::HeadCopy => 2 * (parameters + (text.vocab * text.hidden) as u64),
            Self::Hearing => 2 * (parameters + 300_000_000),
        }
    }
}

/// A mix of types in llama.cpp's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GgufType {
    /// `Q4_K_M`: most matrices in q4_k.
    Q4KM,
    /// `Q8_0`.
    Q80,
    F16,
}

/// Bytes of 256 values in q4_k, q5_k, q6_k and q8_0.
const Q4_K: usize = 144;
const Q5_K: usize = 176;
const Q6_K: usize = 210;
const Q8_0: usize = 272;

/// Bytes of a file's metadata for each token of the vocabulary.
const TOKEN: u64 = 40;

impl GgufType {
    /// Its name, as in `OWNER/NAME:TYPE`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Q4KM => "Q4_K_M",
            Self::Q80 => "Q8_0",
            Self::F16 => "F16",
        }
    }

    /// Bytes of a language model's file, to a thousandth: files differ in their metadata.
    pub(super) fn bytes(self, text: &TextConfig) -> u64 {
        let tensors = parts::tensors(text).into_iter().map(|(name, shape)| {
            let values: usize = shape.iter().product();
            (values * self.block(text, &name, shape.len()) / 256) as u64
        });
        tensors.sum::<u64>() + TOKEN * text.vocab as u64
    }

    /// Bytes of 256 values of a tensor, by the rules of llama.cpp's quantizer.
    fn block(self, text: &TextConfig, name: &str, axes: usize) -> usize {
        if axes < 2 || name.contains("conv1d") || name.contains("mlp.gate.") || name.contains("expert_gate") {
            return 4 * 256;
        }
        let is_head = name.starts_with(if text.tied { "model.embed_tokens" } else { "lm_head" });
        let is_wide = name.contains("v_proj") || name.contains("down_proj");
        match self {
            Self::F16 => 2 * 256,
            Self::Q80 => Q8_0,
            Self::Q4KM if is_head || (is_wide && has_more_bits(name, text.layers)) => Q6_K,
            Self::Q4KM if name.contains("in_proj_qkv") => Q5_K,
            Self::Q4KM => Q4_K,
        }
    }
}

/// True for the first and the last eighth of the layers, and every third one between them.
fn has_more_bits(name: &str, layers: usize) -> bool {
    let index = name.strip_prefix("model.layers.").and_then(|rest| rest.split_once('.'));
    let index = index.and_then(|(index, _)| index.parse::<usize>().ok());
    let eighth = layers / 8;
    index.is_some_and(|index| index < eighth || index >= 7 * layers / 8 || (index - eighth) % 3 == 2)
}
