//! How the text is sampled.

use clap::{Arg, Args};

use super::values::{bias, number, temperature, top_p, whole};
use specreel_client::Layer;

const SAMPLING: &str = "Sampling";

/// What is not set here is the model's own, or that of `--sampling`.
#[derive(Debug, Default, Args)]
pub struct SamplingArgs {
    /// Sampling of what is not set below: model (what its generation_config.json asks for), greedy, or a preset [default: model]
    #[arg(long, value_name = "NAME", help_heading = SAMPLING)]
    pub sampling: Option<String>,
    /// Sampling temperature, from 0 (greedy) to 100
    #[arg(long, help_heading = SAMPLING, allow_negative_numbers = true, value_name = "T", value_parser = temperature)]
    pub temperature: Option<f32>,
    /// Keep this many of the most likely tokens; 0 keeps all
    #[arg(long, help_heading = SAMPLING, value_name = "K")]
    pub top_k: Option<u32>,
    /// Nucleus sampling: keep the most likely tokens up to this total probability, above 0, up to 1
    #[arg(long, help_heading = SAMPLING, allow_negative_numbers = true, value_name = "P", value_parser = top_p)]
    pub top_p: Option<f32>,
    /// Keep the tokens of at least this share of the most likely one's probability, from 0 to 1
    #[arg(long, help_heading = SAMPLING, allow_negative_numbers = true, value_name = "P", value_parser = number)]
    pub min_p: Option<f32>,
    /// Penalty on tokens that occur in the prompt or text: divides positive logits, multiplies negative ones; 1 is none
    #[arg(long, help_heading = SAMPLING, allow_negative_numbers = true, value_name = "X", value_parser = number)]
    pub repetition_penalty: Option<f32>,
    /// Let the repetition penalty count this many of the last tokens; 0 counts all
    #[arg(long, help_heading = SAMPLING, value_name = "N")]
    pub repetition_window: Option<u32>,
    /// Subtracted from the logits of tokens that occur in the text
    #[arg(long, help_heading = SAMPLING, allow_negative_numbers = true, value_name = "X", value_parser = number)]
    pub presence_penalty: Option<f32>,
    /// Subtracted from the logit of a token for each time it occurs in the text
    #[arg(long, help_heading = SAMPLING, allow_negative_numbers = true, value_name = "X", value_parser = number)]
    pub frequency_penalty: Option<f32>,
    /// Write no sequence of this many tokens twice; 0 allows it
    #[arg(long, help_heading = SAMPLING, value_name = "N")]
    pub no_repeat_ngram: Option<u32>,
    /// DRY penalty on a token that would extend a repetition; 0 is none, 0.8 is usual
    #[arg(long, help_heading = SAMPLING, allow_negative_numbers = true, value_name = "X", value_parser = number)]
    pub dry_multiplier: Option<f32>,
    /// Growth of the DRY penalty with each repeated token [default: 1.75]
    #[arg(long, help_heading = SAMPLING, allow_negative_numbers = true, value_name = "X", value_parser = number)]
    pub dry_base: Option<f32>,
    /// Repetitions of fewer tokens have no DRY penalty [default: 2]
    #[arg(long, help_heading = SAMPLING, value_name = "N")]
    pub dry_allowed_length: Option<u32>,
    /// Let DRY look at this many of the last tokens [default: all]
    #[arg(long, help_heading = SAMPLING, value_name = "N")]
    pub dry_window: Option<u32>,
    /// A text that no repetition extends over (repeatable) [default: line breaks, colons, quotation marks, asterisks]
    #[arg(long, help_heading = SAMPLING, value_name = "TEXT")]
    pub dry_breaker: Vec<String>,
    /// Add this bias to the logit of a token id of the target (repeatable)
    #[arg(long, help_heading = SAMPLING, value_name = "ID=BIAS", value_parser = bias)]
    pub logit_bias: Vec<(u32, f32)>,
    /// Random seed [default: 0]
    #[arg(long, help_heading = SAMPLING, allow_negative_numbers = true, value_name = "S", value_parser = whole)]
    pub seed: Option<u64>,
}

/// An argument that is hidden if it is one of these.
pub fn hidden(arg: Arg) -> Arg {
    let is_sampling = arg.get_help_heading() == Some(SAMPLING);
    arg.hide(is_sampling)
}

impl SamplingArgs {
    /// The flags that the configuration file also knows, as a layer of settings.
    pub fn layer(&self) -> Layer {
        Layer {
            sampling: self.sampling.clone(),
            temperature: self.temperature,
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            repetition_penalty: self.repetition_penalty,
            repetition_window: self.repetition_window,
            presence_penalty: self.presence_penalty,
            frequency_penalty: self.frequency_penalty,
            no_repeat_ngram: self.no_repeat_ngram,
            dry_multiplier: self.dry_multiplier,
            dry_base: self.dry_base,
            dry_allowed_length: self.dry_allowed_length,
            dry_window: self.dry_window,
            dry_breakers: (!self.dry_breaker.is_empty()).then(|| self.dry_breaker.clone()),
            seed: self.seed,
            ..Layer::default()
        }
    }
}
