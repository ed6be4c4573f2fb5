//! The part of a video to caption, its pieces, and the output format.

use clap::{Args, ValueEnum};

use super::values::choice;
use specreel_client::present::export::Subtitles;
use specreel_record::{
    Cues,
    span::{LEAST_SEGMENT_S, seconds},
};

/// A part of a video.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct SpanArgs {
    /// Start time: seconds, mm:ss or hh:mm:ss
    #[arg(long, help_heading = "Video", allow_hyphen_values = true, value_name = "T", value_parser = time)]
    pub start: Option<f64>,
    /// End time: seconds, mm:ss or hh:mm:ss
    #[arg(long, help_heading = "Video", allow_hyphen_values = true, value_name = "T", value_parser = time)]
    pub end: Option<f64>,
}

/// A part of a video, its segments, and the output format.
#[derive(Debug, Default, Args)]
pub struct PartArgs {
    #[command(flatten)]
    pub span: SpanArgs,
    /// Caption the video in segments of this length, with time stamps; a short last one is merged into the one before it
    #[arg(long, help_heading = "Video", allow_hyphen_values = true, value_name = "SECONDS", value_parser = length)]
    pub segments: Option<f64>,
    /// Output format
    #[arg(
        long,
        help_heading = "Output",
        value_name = "FORMAT",
        value_enum,
        default_value_t,
        conflicts_with = "json"
    )]
    pub format: Format,
    /// Cues of a caption in subtitles [default: clip]
    #[arg(long, help_heading = "Output", value_name = "HOW", value_parser = choice::<Cues>())]
    pub cues: Option<Cues>,
}

/// Output format of captions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Plain text, streamed
    #[default]
    Text,
    /// SubRip subtitles
    Srt,
    /// WebVTT subtitles
    Vtt,
}

impl Format {
    /// The subtitle format, if it is one.
    pub fn subtitles(self) -> Option<Subtitles> {
        match self {
            Format::Text => None,
            Format::Srt => Some(Subtitles::Srt),
            Format::Vtt => Some(Subtitles::Vtt),
        }
    }
}

fn time(text: &str) -> Result<f64, String> {
    let example = "expected seconds, mm:ss or hh:mm:ss, for example 90, 1:30 or 0:01:30.5";
    seconds(text).ok_or_else(|| example.to_owned())
}

fn length(text: &str) -> Result<f64, String> {
    let long = time(text)?;
    if long < LEAST_SEGMENT_S { Err("expected at least one second".into()) } else { Ok(long) }
}
