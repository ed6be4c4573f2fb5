//! Arguments of `specreel methods`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::run::OUTPUT;

#[derive(Debug, Args)]
pub struct MethodsArgs {
    /// The subcommand; the default is `list`.
    #[command(subcommand)]
    pub command: Option<MethodsCommand>,
    /// Print JSON
    #[arg(long, global = true, help_heading = OUTPUT)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub enum MethodsCommand {
    /// List built-in methods and your own
    List,
    /// Print a method as TOML
    Show {
        /// Method name or file
        name: String,
    },
    /// Check a method file
    Check {
        /// File, or the name of one of your own methods
        file: PathBuf,
    },
}
