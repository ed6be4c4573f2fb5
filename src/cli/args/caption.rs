//! Arguments of `specreel caption`.

use std::path::PathBuf;

use clap::Args;

use super::{
    batch::BatchArgs,
    part::PartArgs,
    run::{OUTPUT, OutputArgs, RunArgs},
};

#[derive(Debug, Args)]
pub struct CaptionArgs {
    /// Videos: files, directories, @LIST (a file with one path a line) or patterns; `demo` or `demo:2` is an embedded clip, `-`
    /// reads a video from stdin
    #[arg(value_name = "VIDEO", required_unless_present = "stdin")]
    pub videos: Vec<PathBuf>,
    /// Many videos.
    #[command(flatten)]
    pub batch: BatchArgs,
    #[command(flatten)]
    pub part: PartArgs,
    #[command(flatten)]
    pub run: RunArgs,
    #[command(flatten)]
    pub output: OutputArgs,
    /// Only print what the run would take: frames, visual tokens, memory and time
    #[arg(long, help_heading = OUTPUT, conflicts_with_all = ["save", "steps"])]
    pub dry_run: bool,
    /// Print each step on stderr: what was drafted, accepted and rejected
    #[arg(long, help_heading = OUTPUT, conflicts_with = "json")]
    pub steps: bool,
}
