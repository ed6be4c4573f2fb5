//! `specreel models`: lists, inspects and downloads models, and manages converted weights.

mod cache;
mod found;
mod gguf;
mod known;
mod list;
mod pull;
mod show;

use std::path::PathBuf;

use clap::{Args, Subcommand};

pub use cache::CacheArgs;
pub use found::{directory, names, suggestion};

use super::{End, args::OUTPUT, candidates, config::Config};

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
        /// demo-msd
        #[arg(value_name = "DIR|FILE|ID", add = candidates::models())]
        model: PathBuf,
    },
    /// Download a model from the Hugging Face hub into the shared cache
    Pull {
        /// Model id, for example Qwen/Qwen3-VL-2B-Instruct; @REVISION selects a branch, tag or commit, :TYPE a
        /// GGUF file and the mmproj file beside it, for example :Q4_K_M
        #[arg(value_name = "ID[@REVISION][:TYPE]", add = candidates::published())]
        id: String,
    },
    /// List, remove or verify converted weights, which are kept so that models load at once
    Cache(CacheArgs),
}

/// List, inspect or pull.
pub fn run(args: &ModelsArgs, config: &Config) -> Result<i32, End> {
    match args.command.as_ref().unwrap_or(&ModelsCommand::List) {
        ModelsCommand::List => list::run(args.json, config),
        ModelsCommand::Known => known::run(args.json),
        ModelsCommand::Inspect { model } => show::run(model, args.json, config),
        ModelsCommand::Pull { id } => pull::run(id, args.json, config),
        ModelsCommand::Cache(cache) => cache::run(cache, args.json, config),
    }
}

/// A number of parameters as text: `7.6 B`, `494 M`.
fn parameters(n: u64) -> String {
    match n as f64 {
        n if n >= 9.995e9 => format!("{:.0} B", n / 1e9),
        n if n >= 9.995e8 => format!("{:.1} B", n / 1e9),
        n if n >= 9.995e6 => format!("{:.0} M", n / 1e6),
        n if n >= 9.995e5 => format!("{:.1} M", n / 1e6),
        n => format!("{:.0} k", n / 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_as_text() {
        let words = [800, 640_000, 1_234_567, 494_000_000, 7_615_000_000, 72_700_000_000].map(parameters);
        assert_eq!(words, ["1 k", "640 k", "1.2 M", "494 M", "7.6 B", "73 B"]);
    }
}
