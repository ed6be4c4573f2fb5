//! What can be typed after `specreel inspect`.

use std::path::PathBuf;

use clap::Args;

use crate::cli::{args::RunArgs, part::SpanArgs};

/// Arguments of `inspect`. What only changes the caption is taken, but not shown: nothing is written here.
#[derive(Debug, Args)]
#[command(mut_arg("max_new_tokens", |arg| arg.hide(true)))]
#[command(mut_arg("temperature", |arg| arg.hide(true)))]
#[command(mut_arg("top_p", |arg| arg.hide(true)))]
#[command(mut_arg("seed", |arg| arg.hide(true)))]
pub struct InspectArgs {
    /// The video; `demo` or `demo:2` is an embedded clip
    pub video: PathBuf,
    /// Which part of it.
    #[command(flatten)]
    pub span: SpanArgs,
    /// How to run.
    #[command(flatten)]
    pub run: RunArgs,
    /// Draw the frames to this PNG file instead of printing them as characters
    #[arg(long, value_name = "OUT")]
    pub png: Option<PathBuf>,
    /// Let --png overwrite an existing file
    #[arg(long, requires = "png")]
    pub force: bool,
    /// Print the prompt event and a summary instead, one JSON object a line
    #[arg(long)]
    pub json: bool,
    /// No progress, and no word on what was written, on stderr
    #[arg(long, short)]
    pub quiet: bool,
}
