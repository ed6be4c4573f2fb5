//! Arguments of `specreel mcp`.

use std::path::PathBuf;

use clap::Args;

use super::run::RunArgs;

/// Arguments of `mcp`.
#[derive(Debug, Default, Args)]
#[command(mut_arg("prompt", |arg| arg.help("Prompt of calls that have none")))]
pub struct McpArgs {
    /// Let calls name only the files in this directory (repeatable) [default: all that you can read]
    #[arg(long, help_heading = "Server", value_name = "DIR")]
    pub allow_dir: Vec<PathBuf>,
    #[command(flatten)]
    pub run: RunArgs,
}
