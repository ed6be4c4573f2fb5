//! Arguments of `specreel inspect`.

use std::path::PathBuf;

use clap::Args;

use crate::cli::args::{part::SpanArgs, run::RunArgs, sampling};

/// Arguments of `inspect`. Options that only change the caption are accepted but hidden, as no caption is written.
#[derive(Debug, Args)]
#[command(mut_arg("max_new_tokens", |arg| arg.hide(true)))]
#[command(mut_arg("on_loop", |arg| arg.hide(true)))]
#[command(mut_args(sampling::hidden))]
#[command(mut_arg("schema", |arg| arg.hide(true)))]
#[command(mut_arg("grammar", |arg| arg.hide(true)))]
#[command(mut_arg("no_reuse_texts", |arg| arg.hide(true)))]
pub struct InspectArgs {
    /// Video; `demo` or `demo:2` is an embedded clip, `-` reads stdin
    pub video: PathBuf,
    #[command(flatten)]
    pub span: SpanArgs,
    #[command(flatten)]
    pub run: RunArgs,
    /// Write the frames to this PNG file instead of printing them as characters
    #[arg(long, help_heading = "Output", value_name = "OUT")]
    pub png: Option<PathBuf>,
    /// Overwrite an existing --png file
    #[arg(long, help_heading = "Output", requires = "png")]
    pub force: bool,
    /// Print the prompt event and a summary as JSON lines
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Do not print progress and notes
    #[arg(long, short, help_heading = "Output")]
    pub quiet: bool,
}
