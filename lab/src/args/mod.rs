//! The command line's arguments.

pub mod bench;
pub mod scenes;
pub mod train;

use clap::{Parser, Subcommand};

use self::{bench::BenchArgs, scenes::ScenesArgs, train::TrainArgs};

/// The laboratory of specreel: measure methods and the tables of papers, train draft heads, render scenes
#[derive(Debug, Parser)]
#[command(name = "specreel-lab", version)]
#[command(after_help = "Examples:
  specreel-lab bench --clips 5                measure all methods on synthetic clips
  specreel-lab bench --paper lvspec           measure the tables of a paper
  specreel-lab train sparrow --out HEAD       train a draft head for the embedded target
  specreel-lab scenes render --seed 7 a.mp4   render a clip with known facts

Environment variables, configuration and exit codes are those of specreel.")]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Benchmark methods on synthetic clips, or single forward passes
    Bench(Box<BenchArgs>),
    /// Train a draft head for a target
    Train(Box<TrainArgs>),
    /// Render synthetic clips with known facts, and score captions of them
    Scenes(ScenesArgs),
    /// List the methods of the laboratory, or print one as TOML
    Methods {
        /// Method to print
        name: Option<String>,
    },
}

impl Cli {
    pub fn json(&self) -> bool {
        match &self.command {
            Command::Bench(args) => args.json,
            Command::Train(args) => args.json,
            Command::Scenes(args) => args.json(),
            Command::Methods { .. } => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_commands_are_well_formed() {
        Cli::command().debug_assert();
    }
}
