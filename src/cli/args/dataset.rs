//! Arguments of `specreel dataset`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Args)]
pub struct DatasetArgs {
    #[command(subcommand)]
    pub command: DatasetCommand,
}

#[derive(Debug, Subcommand)]
pub enum DatasetCommand {
    /// Merge the data sets of several machines into one file, sorted by video
    Merge {
        /// File to write
        out: PathBuf,
        /// Data sets of one kind; of rows about the same video and prompt the last one counts
        #[arg(required = true)]
        parts: Vec<PathBuf>,
        /// Overwrite an existing file
        #[arg(long)]
        force: bool,
    },
    /// Check that every row can be read, names an existing file that its trainer cannot confuse with another, and has a
    /// caption; exit code 3 if not
    Check {
        /// Data set
        file: PathBuf,
        /// Print the problems as JSON
        #[arg(long)]
        json: bool,
    },
    /// Count videos, prompts and words, and the phrases that captions begin with
    Stats {
        /// Data set
        file: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

impl DatasetArgs {
    pub fn json(&self) -> bool {
        matches!(
            self.command,
            DatasetCommand::Check { json: true, .. } | DatasetCommand::Stats { json: true, .. }
        )
    }
}
