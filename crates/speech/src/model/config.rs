//! Sizes of a Whisper model, from `config.json`.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::mel::FRAMES;

/// States of a window: two frames become one.
pub const STATES: usize = FRAMES / 2;

/// `config.json` of a Whisper model in Hugging Face's layout.
#[derive(Clone, Debug, Deserialize)]
pub struct Config {
    pub num_mel_bins: usize,
    max_source_positions: usize,
    pub max_target_positions: usize,
    pub vocab_size: usize,
    pub d_model: usize,
    pub encoder_layers: usize,
    pub encoder_attention_heads: usize,
    encoder_ffn_dim: Option<usize>,
    pub decoder_layers: usize,
    pub decoder_attention_heads: usize,
    decoder_ffn_dim: Option<usize>,
    activation_function: Option<String>,
    #[serde(default)]
    scale_embedding: bool,
    #[serde(default)]
    pub suppress_tokens: Vec<u32>,
    #[serde(default)]
    pub begin_suppress_tokens: Vec<u32>,
}

impl Config {
    /// Read and check a configuration. The error is its first problem.
    pub fn read(bytes: &[u8]) -> Result<Self, String> {
        let mut values: Map<String, Value> = serde_json::from_slice(bytes).map_err(|e| e.to_string())?;
        // What is null is as good as absent.
        values.retain(|_, value| !value.is_null());
        let kind = values.get("model_type").and_then(Value::as_str).unwrap_or_default();
        if kind != "whisper" {
            return Err(format!("model_type is {kind:?}, expected \"whisper\""));
        }
        let config: Self = serde_json::from_value(values.into()).map_err(|e| e.to_string())?;
        config.check()?;
        Ok(config)
    }

    pub fn encoder_ffn(&self) -> usize {
        self.encoder_ffn_dim.unwrap_or(4 * self.d_model)
    }

    pub fn decoder_ffn(&self) -> usize {
        self.decoder_ffn_dim.unwrap_or(4 * self.d_model)
    }

    /// Why it cannot be a model's.
    fn check(&self) -> Result<(), String> {
        let expect = |name: &str, value: usize, is_valid: bool, expected: &str| match is_valid {
            true => Ok(()),
            false => Err(format!("{name} is {value}, expected {expected}")),
        };
        let Self { num_mel_bins, max_source_positions, d_model, vocab_size, max_target_positions, .. } =
            *self;
        expect("num_mel_bins", num_mel_bins, matches!(num_mel_bins, 80 | 128), "80 or 128")?;
        expect(
            "max_source_positions",
            max_source_positions,
            max_source_positions == STATES,
            "1500 (30 seconds)",
        )?;
        expect(
            "max_target_positions",
            max_target_positions,
            (8..=4096).contains(&max_target_positions),
            "8 to 4096",
        )?;
        expect("vocab_size", vocab_size, (16..=1 << 20).contains(&vocab_size), "16 to 1048576")?;
        let is_even = d_model.is_multiple_of(2);
        expect("d_model", d_model, (4..=1 << 14).contains(&d_model) && is_even, "an even number to 16384")?;
        for (name, heads) in [
            ("encoder_attention_heads", self.encoder_attention_heads),
            ("decoder_attention_heads", self.decoder_attention_heads),
        ] {
            expect(name, heads, heads > 0 && d_model.is_multiple_of(heads), "a divisor of d_model")?;
        }
        for (name, layers) in
            [("encoder_layers", self.encoder_layers), ("decoder_layers", self.decoder_layers)]
        {
            expect(name, layers, (1..=1024).contains(&layers), "1 to 1024")?;
        }
        for (name, width) in
            [("encoder_ffn_dim", self.encoder_ffn()), ("decoder_ffn_dim", self.decoder_ffn())]
        {
            expect(name, width, (1..=1 << 17).contains(&width), "1 to 131072")?;
        }
        match self.activation_function.as_deref() {
            None | Some("gelu") => {}
            Some(other) => return Err(format!("activation_function is {other:?}, expected \"gelu\"")),
        }
        match self.scale_embedding {
            false => Ok(()),
            true => Err("scale_embedding is true, expected false".into()),
        }
    }
}
