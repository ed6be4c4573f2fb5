//! How to run and what to print: arguments that several subcommands share.

use std::path::PathBuf;

use clap::{ArgGroup, Args, ValueEnum};

use super::{
    sampling::SamplingArgs,
    values::{choice, device, dtype, fps, kv_type, rope, some_text, tower_dtype},
};
use specreel_client::Layer;
use specreel_model::family::Rope;
use specreel_record::OnLoop;
use specreel_tensor::{DeviceChoice, KvType, WeightType};

pub const MODELS: &str = "Models";
pub const VIDEO: &str = "Video";
pub const TEXT: &str = "Generation";
pub const OUTPUT: &str = "Output";

/// How to run a generation; shared by the studio, `caption` and `compare`.
#[derive(Debug, Default, Args)]
pub struct RunArgs {
    /// Prompt; `-` reads it from stdin
    #[arg(long, value_name = "TEXT", help_heading = TEXT)]
    pub prompt: Option<String>,
    /// Prompt by its name: built in, or yours in prompts.toml, for example prose, tags or wan
    #[arg(long, value_name = "NAME", help_heading = TEXT, conflicts_with = "prompt")]
    pub preset: Option<String>,
    /// System message in front of the prompt [default: the chat template's own, or the preset's]
    #[arg(long, value_name = "TEXT", help_heading = TEXT)]
    pub system: Option<String>,
    /// Write JSON of this schema: caption, tags, events, or a file with a JSON schema
    #[arg(long, value_name = "NAME|FILE", help_heading = TEXT)]
    pub schema: Option<PathBuf>,
    /// Write a text of the Lark grammar in this file
    #[arg(long, value_name = "FILE", help_heading = TEXT, conflicts_with = "schema")]
    pub grammar: Option<PathBuf>,
    /// Ask for a caption of at most this many words; models follow that more or less
    #[arg(long, help_heading = TEXT, allow_negative_numbers = true, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub max_words: Option<u32>,
    /// Decoding method: a name from `specreel methods`, or a TOML file [default: auto; without a drafter autoregressive, with a draft
    /// head in --drafter the head's own]
    #[arg(long, value_name = "NAME|FILE", help_heading = TEXT)]
    pub method: Option<String>,
    /// Override one value of the method, for example acceptance.lambda=0.5, or lambda=0.5 if only one axis of the method has
    /// it (repeatable)
    #[arg(long, value_name = "AXIS.KEY=VALUE", help_heading = TEXT)]
    pub set: Vec<String>,
    /// Target model: a directory in Hugging Face layout, a GGUF file, or the id of a cached model [default: embedded pair]
    #[arg(long, value_name = "DIR|FILE|ID", help_heading = MODELS)]
    pub target: Option<PathBuf>,
    /// Vision tower of a target in GGUF [default: the mmproj file in its directory]
    #[arg(long, value_name = "FILE", help_heading = MODELS)]
    pub mmproj: Option<PathBuf>,
    /// LoRA adapter of the target, as PEFT saves it
    #[arg(long, value_name = "DIR", help_heading = MODELS)]
    pub lora: Option<PathBuf>,
    /// Draft model or draft head: a directory, a GGUF file, or the id of a cached model
    #[arg(long, value_name = "DIR|FILE|ID", help_heading = MODELS)]
    pub drafter: Option<PathBuf>,
    /// Vision tower of a drafter in GGUF [default: the mmproj file in its directory]
    #[arg(long, value_name = "FILE", help_heading = MODELS)]
    pub drafter_mmproj: Option<PathBuf>,
    /// Device: auto (the best one), cpu, gpu, gpu:N, cuda, cuda:N or metal
    #[arg(long, value_name = "DEVICE", value_parser = device, help_heading = MODELS)]
    pub device: Option<DeviceChoice>,
    /// Device of the drafter [default: the target's]
    #[arg(long, value_name = "DEVICE", value_parser = device, help_heading = MODELS)]
    pub drafter_device: Option<DeviceChoice>,
    /// Weight type of the language models: auto (q8_0; bf16 on cuda and metal), f32, bf16, f16, q8_0, q6_k, q5_1, q5_k, q5_0, q4_1, q4_k, iq4_nl, q4_0, q3_k
    #[arg(long, value_name = "TYPE", value_parser = dtype, help_heading = MODELS)]
    pub dtype: Option<WeightType>,
    /// Weight type of the drafter, to which a GGUF file is converted; fewer bits draft faster [default: the target's, or the file's]
    #[arg(long, value_name = "TYPE", value_parser = dtype, help_heading = MODELS)]
    pub drafter_dtype: Option<WeightType>,
    /// Draft from so many ids of the vocabulary only, the most frequent ones: a smaller head drafts faster [default: 65536 if there are more than 98303, else all]
    #[arg(long, help_heading = MODELS, allow_negative_numbers = true, value_name = "N", value_parser = clap::value_parser!(u32).range(256..))]
    pub drafter_vocabulary: Option<u32>,
    /// Weight type of the vision towers on cpu and gpu: auto (q8_0; f32 with --dtype f32), f32, bf16, f16, q8_0
    #[arg(long, value_name = "TYPE", value_parser = tower_dtype, help_heading = MODELS)]
    pub tower_dtype: Option<WeightType>,
    /// Type of the KV cache on cpu and gpu: auto (f16; f32 for small models and with --dtype f32), f32, f16, q8_0
    #[arg(long, value_name = "TYPE", value_parser = kv_type, help_heading = MODELS)]
    pub kv_type: Option<KvType>,
    /// Load and run even if the available memory seems too small
    #[arg(long, help_heading = MODELS)]
    pub ignore_memory: bool,
    /// Prompt lookup searches this prompt and text only, not what was written for earlier clips and segments
    #[arg(long, help_heading = TEXT)]
    pub no_reuse_texts: bool,
    /// Convert the weights again, and do not keep them for the next start
    #[arg(long, help_heading = MODELS)]
    pub no_weight_cache: bool,
    /// Position encoding: auto (the model's own), mrope (time, row, column), sequential (one axis)
    #[arg(long, value_name = "KIND", value_parser = rope, help_heading = MODELS)]
    pub rope: Option<Rope>,
    /// Sample this many frames, evenly spaced
    #[arg(long, help_heading = VIDEO, allow_negative_numbers = true, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096), conflicts_with = "fps")]
    pub frames: Option<u32>,
    /// Sample this many frames per second
    #[arg(long, help_heading = VIDEO, allow_negative_numbers = true, value_name = "F", value_parser = fps)]
    pub fps: Option<f64>,
    /// Maximum number of pixels per frame [default: the model's own]
    #[arg(long, help_heading = VIDEO, allow_negative_numbers = true, value_name = "N", value_parser = clap::value_parser!(u32).range(784..))]
    pub max_pixels: Option<u32>,
    /// Maximum number of visual tokens: frames become smaller, then fewer [default: no limit]
    #[arg(long, help_heading = VIDEO, allow_negative_numbers = true, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_visual_tokens: Option<u32>,
    /// Maximum number of new tokens [default: 256]
    #[arg(long, help_heading = TEXT, allow_negative_numbers = true, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub max_new_tokens: Option<u32>,
    /// Let the model think before it answers, if it can; thoughts are not part of the caption
    #[arg(long, help_heading = TEXT)]
    pub thinking: bool,
    /// How much to think, if the model's chat template offers it, for example low (Qwen3.8: xhigh, medium, low)
    #[arg(long, value_name = "EFFORT", help_heading = TEXT)]
    pub reasoning_effort: Option<String>,
    /// End the caption before this text (repeatable)
    #[arg(long, value_name = "TEXT", help_heading = TEXT, allow_hyphen_values = true, value_parser = some_text)]
    pub stop: Vec<String>,
    /// What becomes of a caption that repeats itself without end [default: stop]
    #[arg(long, value_name = "WHAT", help_heading = TEXT, value_parser = choice::<OnLoop>())]
    pub on_loop: Option<OnLoop>,
    #[command(flatten)]
    pub sampling: SamplingArgs,
}

impl RunArgs {
    /// Those that say how models are loaded, besides the settings.
    #[cfg(feature = "find")]
    pub fn loading(&self) -> Self {
        Self { rope: self.rope, ignore_memory: self.ignore_memory, ..Self::default() }
    }

    /// The flags that the configuration file also knows, as a layer of settings.
    pub fn layer(&self) -> Layer {
        Layer {
            prompt: self.prompt.clone(),
            preset: self.preset.clone(),
            system: self.system.clone(),
            method: self.method.clone(),
            target: self.target.clone(),
            mmproj: self.mmproj.clone(),
            lora: self.lora.clone(),
            drafter: self.drafter.clone(),
            drafter_mmproj: self.drafter_mmproj.clone(),
            device: self.device,
            drafter_device: self.drafter_device,
            dtype: self.dtype,
            drafter_dtype: self.drafter_dtype,
            drafter_vocabulary: self.drafter_vocabulary,
            tower_dtype: self.tower_dtype,
            weight_cache: self.no_weight_cache.then_some(false),
            reuse_texts: self.no_reuse_texts.then_some(false),
            kv_type: self.kv_type,
            max_new_tokens: self.max_new_tokens,
            max_visual_tokens: self.max_visual_tokens,
            thinking: self.thinking.then_some(true),
            reasoning_effort: self.reasoning_effort.clone(),
            on_loop: self.on_loop,
            ..self.sampling.layer()
        }
    }
}

/// Output options.
#[derive(Debug, Default, Args)]
#[command(group(ArgGroup::new("kept").args(["save"]).multiple(true)))]
pub struct OutputArgs {
    /// Print events as JSON lines
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,
    /// When to color tokens by verdict
    #[arg(long, help_heading = OUTPUT, value_name = "WHEN", value_enum, default_value_t)]
    pub color: ColorChoice,
    /// Do not print progress, legend or statistics
    #[arg(long, short, help_heading = OUTPUT)]
    pub quiet: bool,
    /// Save the run to this file: its events, as they arrive
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub save: Option<PathBuf>,
    /// Overwrite an existing --save file
    #[arg(long, requires = "kept", help_heading = OUTPUT)]
    pub force: bool,
    /// When to measure speedups after the runs, for up to a second each: always, never, or auto (`compare`: always; `caption`:
    /// if stderr is a terminal)
    #[arg(long, help_heading = OUTPUT, value_name = "WHEN", value_enum, default_value_t)]
    pub measure: MeasureChoice,
    /// Report the target's K most likely tokens with each token (--json and --save)
    #[arg(long, help_heading = OUTPUT, value_name = "K", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=100))]
    pub logprobs: u32,
}

/// When to color.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ColorChoice {
    /// If the terminal supports it
    #[default]
    Auto,
    /// Also into files and pipes
    Always,
    /// No color
    Never,
}

/// When to measure speedups after the runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum MeasureChoice {
    /// In `compare`, and in `caption` on a terminal
    #[default]
    Auto,
    /// After every run
    Always,
    /// Speedups are rough figures
    Never,
}

impl MeasureChoice {
    /// Whether to measure; `auto` decides in place of [`MeasureChoice::Auto`].
    pub fn measures(self, auto: bool) -> bool {
        match self {
            Self::Auto => auto,
            Self::Always => true,
            Self::Never => false,
        }
    }
}
