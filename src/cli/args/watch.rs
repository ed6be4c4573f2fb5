//! Arguments of `specreel watch`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::part::{CuesArgs, SceneArgs, Segments, SpeechArgs, segments};
use super::run::{OUTPUT, OutputArgs, RunArgs, VIDEO};
use super::values::seconds;

const STREAM: &str = "Stream";

/// Arguments of `watch`. Speeds are not measured between segments, as with `caption --segments`.
#[derive(Debug, Args)]
#[command(mut_arg("save", |arg| arg.help("Save the runs to this file: their events, as they arrive")))]
#[command(mut_arg("force", |arg| arg.help("Overwrite existing --out and --save files")))]
#[command(mut_arg("measure", |arg| arg.hide(true)))]
#[command(mut_group("kept", |group| group.arg("out")))]
pub struct WatchArgs {
    /// Stream: a file that is still written, an http, https, rtsp, rtmp, srt or udp URL, or `-` for stdin
    #[arg(value_name = "URL|FILE|-")]
    pub stream: PathBuf,
    /// Length of a segment, or `scenes` for a segment for each scene
    #[arg(
        long,
        help_heading = VIDEO,
        allow_hyphen_values = true,
        value_name = "SECONDS|scenes",
        default_value = "30",
        value_parser = segments
    )]
    pub segments: Segments,
    #[command(flatten)]
    pub scenes: SceneArgs,
    #[command(flatten)]
    pub speech: SpeechArgs,
    /// End after a file has not grown for this long; 0 ends at its end
    #[arg(
        long,
        help_heading = STREAM,
        allow_negative_numbers = true,
        value_name = "SECONDS",
        default_value = "10",
        value_parser = seconds
    )]
    pub idle: f64,
    /// When captioning is slower than the stream: wait, which stops reading, or skip segments [default: skip for a URL, else wait]
    #[arg(long, help_heading = STREAM, value_name = "POLICY", value_enum)]
    pub behind: Option<Behind>,
    /// Open a broken URL again, with growing pauses, until so many attempts in a row have failed
    #[arg(long, help_heading = STREAM, allow_negative_numbers = true, value_name = "N", default_value_t = 10)]
    pub retries: u32,
    #[command(flatten)]
    pub run: RunArgs,
    /// Append each finished caption to this file: .srt, .vtt, .txt, .jsonl or .ffmetadata (chapters)
    #[arg(long, short, help_heading = OUTPUT, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Also keep the captions of a file in an index, in which `specreel find` looks [default: library.db in the data directory]
    #[cfg(feature = "find")]
    #[arg(long, help_heading = OUTPUT, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    pub index: Option<Option<PathBuf>>,
    #[command(flatten)]
    pub cues: CuesArgs,
    #[command(flatten)]
    pub output: OutputArgs,
    /// Continue existing --out and --save files: a FILE after its last caption, a URL or stdin with times that continue
    #[arg(long, help_heading = OUTPUT, requires = "kept", conflicts_with = "force")]
    pub resume: bool,
}

/// What to do when captioning is slower than the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Behind {
    /// Stop reading until the segment before is captioned
    Wait,
    /// Leave out the segment that has waited longest, and say so
    Skip,
}
