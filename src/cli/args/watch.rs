//! Arguments of `specreel watch`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{
    part::{SceneArgs, Segments, segments},
    run::{ColorChoice, OUTPUT, RunArgs, VIDEO},
    values::{choice, seconds},
};
use specreel_record::Cues;

const STREAM: &str = "Stream";

#[derive(Debug, Args)]
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
    /// Append each finished caption to this file: .srt, .vtt or .jsonl
    #[arg(long, short, help_heading = OUTPUT, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Continue an existing --out file: a FILE after its last caption, a URL or stdin with times that continue
    #[arg(long, help_heading = OUTPUT, requires = "out", conflicts_with = "force")]
    pub resume: bool,
    /// Overwrite an existing --out file
    #[arg(long, help_heading = OUTPUT, requires = "out")]
    pub force: bool,
    /// Cues of a caption in subtitles [default: clip]
    #[arg(long, help_heading = OUTPUT, value_name = "HOW", value_parser = choice::<Cues>())]
    pub cues: Option<Cues>,
    /// Print events as JSON lines
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,
    /// When to color tokens by verdict
    #[arg(long, help_heading = OUTPUT, value_name = "WHEN", value_enum, default_value_t)]
    pub color: ColorChoice,
    /// Do not print progress, notes or statistics
    #[arg(long, short, help_heading = OUTPUT)]
    pub quiet: bool,
}

/// What to do when captioning is slower than the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Behind {
    /// Stop reading until the segment before is captioned
    Wait,
    /// Leave out the segment that has waited longest, and say so
    Skip,
}
