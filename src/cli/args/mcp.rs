//! Arguments of `specreel mcp`.

use std::path::PathBuf;

use clap::Args;

use super::{part::SpeechModelArgs, run::RunArgs};

/// Arguments of `mcp`.
#[derive(Debug, Default, Args)]
#[command(mut_arg("prompt", |arg| arg.help("Prompt of calls that have none")))]
#[command(mut_arg("no_reuse_texts", |arg| arg.hide(true)))]
#[command(mut_arg("transcribe", |arg| arg.help("Whisper model (directory or id) for calls with `transcribe`")))]
pub struct McpArgs {
    /// Let calls name only the files in this directory (repeatable) [default: all that you can read]
    #[arg(long, help_heading = "Server", value_name = "DIR")]
    pub allow_dir: Vec<PathBuf>,
    /// File of the index in which find_moments looks [default: library.db in the data directory]
    #[cfg(feature = "find")]
    #[arg(long, help_heading = "Server", value_name = "FILE")]
    pub db: Option<PathBuf>,
    #[command(flatten)]
    pub speech: SpeechModelArgs,
    #[command(flatten)]
    pub run: RunArgs,
}
