//! The part of a video to caption, its pieces, and the output format.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::values::choice;
use crate::cli::output::style::Timed;
use specreel_client::Config;
use specreel_client::present::export::{Outline, Subtitles};
use specreel_client::speech::{Between, SpeechModel, SpeechSource};
use specreel_record::Cues;
use specreel_record::span::{LEAST_SEGMENT_S, seconds};

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

/// Options of scene detection.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct SceneArgs {
    /// Difference between two frames that counts as a cut, from 0 to 255 (--segments scenes) [default: 27]
    #[arg(long, help_heading = "Video", allow_hyphen_values = true, value_name = "T", value_parser = threshold)]
    pub scene_threshold: Option<f64>,
    /// Shortest scene; cuts that follow each other faster are merged (--segments scenes) [default: 2]
    #[arg(long, help_heading = "Video", allow_hyphen_values = true, value_name = "SECONDS", value_parser = length)]
    pub min_segment: Option<f64>,
    /// Longest segment; longer scenes are divided evenly (--segments scenes) [default: 120]
    #[arg(long, help_heading = "Video", allow_hyphen_values = true, value_name = "SECONDS", value_parser = length)]
    pub max_segment: Option<f64>,
}

/// What is said in a video.
#[derive(Debug, Default, Args)]
pub struct SpeechArgs {
    /// What is said in the video, for the prompt of each segment: SubRip, WebVTT, or Whisper's JSON
    #[arg(long, help_heading = "Video", value_name = "FILE", conflicts_with = "transcribe")]
    pub transcript: Option<PathBuf>,
    #[command(flatten)]
    pub model: SpeechModelArgs,
}

/// The model that recognizes speech.
#[derive(Debug, Default, Args)]
pub struct SpeechModelArgs {
    /// Recognize speech with this Whisper model (directory or id), for the prompt of each segment
    #[arg(long, help_heading = "Video", value_name = "MODEL")]
    pub transcribe: Option<PathBuf>,
    /// Language of the speech, such as `en` or `English` [default: detected]
    #[arg(long, help_heading = "Video", value_name = "LANGUAGE", requires = "transcribe")]
    pub language: Option<String>,
    /// Number of the audio track to listen to, from 1 [default: the track that players choose]
    #[arg(
        long,
        help_heading = "Video",
        value_name = "N",
        requires = "transcribe",
        value_parser = clap::value_parser!(u16).range(1..)
    )]
    pub audio_track: Option<u16>,
}

impl SpanArgs {
    pub fn between(self) -> Between {
        Between { start: self.start, end: self.end }
    }
}

impl SpeechArgs {
    pub fn source(&self) -> SpeechSource {
        SpeechSource { transcript: self.transcript.clone(), model: self.model.named() }
    }
}

impl SpeechModelArgs {
    pub fn named(&self) -> SpeechModel {
        SpeechModel {
            model: self.transcribe.clone(),
            language: self.language.clone(),
            track: self.audio_track,
        }
    }
}

/// How captions become subtitles.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct CuesArgs {
    /// Cues of a caption in subtitles [default: clip]
    #[arg(long, help_heading = "Output", value_name = "HOW", value_parser = choice::<Cues>())]
    pub cues: Option<Cues>,
}

impl CuesArgs {
    pub fn of(self, config: &Config) -> Cues {
        self.cues.or(config.values.cues).unwrap_or_default()
    }
}

/// The prompt of a summary.
const SUMMARY: &str = "Summarize the whole video from these captions, from its beginning to its end, with the times of what matters.";

/// A part of a video, its segments, and the output format.
#[derive(Debug, Default, Args)]
pub struct PartArgs {
    #[command(flatten)]
    pub span: SpanArgs,
    /// Caption the video in segments, with time stamps: of this length (a short last one is merged into the one before it), or one
    /// for each scene
    #[arg(long, help_heading = "Video", allow_hyphen_values = true, value_name = "SECONDS|scenes", value_parser = segments)]
    pub segments: Option<Segments>,
    #[command(flatten)]
    pub scenes: SceneArgs,
    /// After the segments, caption the whole video from their captions; with PROMPT, by this prompt
    #[arg(
        long,
        help_heading = "Video",
        value_name = "PROMPT",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = SUMMARY
    )]
    pub summary: Option<String>,
    #[command(flatten)]
    pub speech: SpeechArgs,
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
    #[command(flatten)]
    pub cues: CuesArgs,
}

/// How a video is cut into segments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Segments {
    /// Segments of so many seconds.
    Seconds(f64),
    Scenes,
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
    /// Chapters as FFmpeg's metadata file
    Chapters,
    /// Chapters as lines of a description on YouTube
    Youtube,
    /// Captions with their times, and the summary, as one JSON object
    Json,
}

impl Format {
    /// The format with times, if it is one.
    pub fn timed(self) -> Option<Timed> {
        Some(match self {
            Format::Text => return None,
            Format::Srt => Timed::Subtitles(Subtitles::Srt),
            Format::Vtt => Timed::Subtitles(Subtitles::Vtt),
            Format::Chapters => Timed::Outline(Outline::Chapters),
            Format::Youtube => Timed::Outline(Outline::Youtube),
            Format::Json => Timed::Outline(Outline::Json),
        })
    }
}

fn time(text: &str) -> Result<f64, String> {
    let example = "expected seconds, mm:ss or hh:mm:ss, for example 90, 1:30 or 0:01:30.5";
    seconds(text).ok_or_else(|| example.to_owned())
}

pub fn segments(text: &str) -> Result<Segments, String> {
    match text {
        "scenes" => Ok(Segments::Scenes),
        _ if seconds(text).is_none() => Err("expected a time, such as 30 or 1:30, or `scenes`".into()),
        _ => length(text).map(Segments::Seconds),
    }
}

fn threshold(text: &str) -> Result<f64, String> {
    let fits = |threshold: &f64| (0.1..=255.0).contains(threshold);
    text.parse().ok().filter(fits).ok_or_else(|| "expected a number from 0.1 to 255".to_owned())
}

fn length(text: &str) -> Result<f64, String> {
    let long = time(text)?;
    if long < LEAST_SEGMENT_S { Err("expected at least one second".into()) } else { Ok(long) }
}
