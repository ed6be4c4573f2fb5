//! Arguments of `specreel caption`.

use std::path::PathBuf;

use clap::Args;

use super::run::{OUTPUT, OutputArgs, RunArgs};
use super::{batch::BatchArgs, part::PartArgs};

#[derive(Debug, Default, Args)]
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
    /// Continue the run in the --save file: segments that it has are not captioned again
    #[arg(long, help_heading = OUTPUT, requires = "save", conflicts_with_all = ["force", "dry_run"])]
    pub resume: bool,
    /// Print frames, visual tokens, memory and time of the run, without running it
    #[arg(long, help_heading = OUTPUT, conflicts_with_all = ["save", "steps", "verify"])]
    pub dry_run: bool,
    /// Decode again without drafts and compare the texts; of many videos the first and every Nth one after it [default: 1]
    #[arg(
        long,
        help_heading = OUTPUT,
        value_name = "N",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "1",
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    pub verify: Option<u32>,
    /// Print each step on stderr: drafted, accepted and rejected tokens
    #[arg(long, help_heading = OUTPUT, conflicts_with = "json")]
    pub steps: bool,
}
