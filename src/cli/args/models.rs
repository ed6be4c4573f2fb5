//! Arguments of `specreel models`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{
    run::{MODELS, OUTPUT},
    values,
};
use specreel_tensor::{DeviceChoice, WeightType};

/// Arguments of `models`.
#[derive(Debug, Args)]
pub struct ModelsArgs {
    /// The subcommand; the default is `list`.
    #[command(subcommand)]
    pub command: Option<ModelsCommand>,
    /// Print JSON
    #[arg(long, global = true, help_heading = OUTPUT)]
    pub json: bool,
}

/// Subcommands of `models`.
#[derive(Debug, Subcommand)]
pub enum ModelsCommand {
    /// List models: embedded, in configured folders, in the Hugging Face cache; GGUF files also of llama.cpp and LM Studio
    List,
    /// List published models of the supported families: id on the hub, parameters, models that can draft for it
    Known,
    /// Show a model's contents, memory needs and problems
    Inspect {
        /// Directory, GGUF file, id of a cached model, or an embedded model: demo-target, demo-drafter, demo-drafter-weak, demo-sparrow,
        /// demo-msd, demo-eagle3, demo-dflash
        #[arg(value_name = "DIR|FILE|ID")]
        model: PathBuf,
        /// Vision tower of a model in GGUF [default: the mmproj file in its directory]
        #[arg(long, value_name = "FILE")]
        mmproj: Option<PathBuf>,
        /// List the type of each tensor after conversion to this weight type
        #[arg(long, value_name = "TYPE", value_parser = values::dtype)]
        dtype: Option<WeightType>,
    },
    /// Say what each drafter is expected to gain with a target on this machine, and how well that is known
    Advise(Box<AdviseArgs>),
    /// Download a model from the Hugging Face hub into the shared cache
    Pull {
        /// Model id, for example Qwen/Qwen3-VL-2B-Instruct; @REVISION selects a branch, tag or commit, :TYPE a
        /// GGUF file and its mmproj file, for example :Q4_K_M
        #[arg(value_name = "ID[@REVISION][:TYPE]")]
        id: String,
    },
    /// Remove a model from the shared cache, with the files that nothing else in it uses
    Remove {
        /// Id of a cached model, or its directory or GGUF file in the cache
        #[arg(value_name = "ID|DIR|FILE")]
        model: PathBuf,
    },
    /// List, remove or verify converted weights, which are kept so that models load at once
    Cache(CacheArgs),
}

/// Arguments of `models advise`.
#[derive(Debug, Default, Args)]
pub struct AdviseArgs {
    /// Video that the figures are for; `demo` is an embedded clip [default: half a minute of 720p]
    pub video: Option<PathBuf>,
    /// Target: a directory in Hugging Face layout, a GGUF file, or the id of a cached model [default: the configured one]
    #[arg(long, value_name = "DIR|FILE|ID", help_heading = MODELS)]
    pub target: Option<PathBuf>,
    /// Draft model or draft head to consider (repeatable) [default: all on this machine that fit]
    #[arg(long, value_name = "DIR|FILE|ID", help_heading = MODELS)]
    pub drafter: Vec<PathBuf>,
    /// Device: auto (the best one), cpu, gpu, gpu:N, cuda, cuda:N or metal
    #[arg(long, value_name = "DEVICE", value_parser = values::device, help_heading = MODELS)]
    pub device: Option<DeviceChoice>,
    /// Weight type of the language models, as for `caption`
    #[arg(long, value_name = "TYPE", value_parser = values::dtype, help_heading = MODELS)]
    pub dtype: Option<WeightType>,
    /// Maximum number of new tokens [default: 256]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub max_new_tokens: Option<u32>,
    /// Load each model first, and measure its passes; takes some seconds each
    #[arg(long)]
    pub measure: bool,
}

/// Arguments of `models cache`.
#[derive(Debug, Args)]
pub struct CacheArgs {
    /// The subcommand; the default is `list`.
    #[command(subcommand)]
    pub command: Option<CacheCommand>,
}

/// Subcommands of `models cache`.
#[derive(Debug, Subcommand)]
pub enum CacheCommand {
    /// List converted weights: model, weight type, size, last use, state of the checkpoint
    List,
    /// Remove converted weights; they are converted again when they are needed
    Clear {
        /// Model, or the beginning of an id; without it, all are removed
        #[arg(value_name = "MODEL|ID")]
        name: Option<String>,
        /// Only those whose checkpoint has changed since
        #[arg(long)]
        stale: bool,
    },
    /// Read all converted weights and compare them with their checksums
    Verify,
}
