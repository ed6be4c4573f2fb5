//! Arguments of `specreel models`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{run::OUTPUT, values};
use specreel_tensor::WeightType;

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
        /// List the type of each tensor after conversion to this weight type
        #[arg(long, value_name = "TYPE", value_parser = values::dtype)]
        dtype: Option<WeightType>,
    },
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
