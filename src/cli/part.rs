//! The part of a video to caption, its pieces, and the output format.

use super::values::choice;
use std::path::Path;

use clap::{Args, ValueEnum};

use super::config::Config;

use specreel_client::present::export::Subtitles;
use specreel_engine::RunRequest;
use specreel_record::{
    Cues, Failure, FailureClass, Segment, Span,
    span::{LEAST_SEGMENT_S, seconds},
};
use specreel_video as video;

/// A part of a video.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct SpanArgs {
    /// Start time: seconds, mm:ss or hh:mm:ss
    #[arg(long, help_heading = "Video", allow_hyphen_values = true, value_name = "T", value_parser = time)]
    pub start: Option<f64>,
    /// End time, likewise
    #[arg(long, help_heading = "Video", allow_hyphen_values = true, value_name = "T", value_parser = time)]
    pub end: Option<f64>,
}

/// A part of a video, its pieces, and the output format.
#[derive(Debug, Default, Args)]
pub struct PartArgs {
    /// The part.
    #[command(flatten)]
    pub span: SpanArgs,
    /// Caption the video in pieces of this length, with time stamps; a short last piece is merged into the previous one
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

impl SpanArgs {
    /// Check the times without the video.
    ///
    /// # Errors
    /// The part ends before it starts (class usage).
    pub fn check(self) -> Result<(), Failure> {
        match (self.start, self.end) {
            (start, Some(end)) if start.unwrap_or(0.0) >= end => Err(Failure {
                class: FailureClass::Usage,
                error: format!("--end {end} is not after --start {}", start.unwrap_or(0.0)),
                hint: Some("for example: --start 0:30 --end 1:10".into()),
            }),
            _ => Ok(()),
        }
    }

    /// The part of this video; none if it is the whole video.
    ///
    /// # Errors
    /// The video cannot be read, or the part is not in it, or too short.
    pub fn of(self, video: &Path) -> Result<Option<Span>, Failure> {
        if self.is_whole() {
            return Ok(None);
        }
        Ok(video::segments(video, self.start, self.end, None)?.first().copied())
    }

    fn is_whole(self) -> bool {
        self.start.is_none() && self.end.is_none()
    }
}

impl PartArgs {
    /// How captions become cues of subtitles.
    pub fn cues(&self, config: &Config) -> Cues {
        self.cues.or(config.values.cues).unwrap_or_default()
    }

    /// The runs of a request: itself for a whole video as text, else one for each piece.
    ///
    /// # Errors
    /// The part is not in the video, or too short.
    pub fn runs(&self, request: RunRequest) -> Result<Vec<RunRequest>, Failure> {
        let Self { span, segments, format, .. } = *self;
        if span.is_whole() && segments.is_none() && format == Format::Text {
            return Ok(vec![request]);
        }
        let spans = video::segments(&request.video, span.start, span.end, segments)?;
        let (first, count) = (request.run, spans.len());
        let piece = |(index, span): (usize, Span)| RunRequest {
            run: first + index as u64,
            span: Some(span),
            segment: segments.map(|_| Segment { first, index, count }),
            ..request.clone()
        };
        Ok(spans.into_iter().enumerate().map(piece).collect())
    }
}

/// Parse a time.
fn time(text: &str) -> Result<f64, String> {
    let example = "expected seconds, mm:ss or hh:mm:ss, for example 90, 1:30 or 0:01:30.5";
    seconds(text).ok_or_else(|| example.to_owned())
}

/// Parse the length of a piece.
fn length(text: &str) -> Result<f64, String> {
    let long = time(text)?;
    if long < LEAST_SEGMENT_S { Err("expected at least one second".into()) } else { Ok(long) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_have_a_length() {
        assert_eq!((length("0:20"), time("1:30.5")), (Ok(20.0), Ok(90.5)));
        for bad in ["0.5", "0", "-3", "long"] {
            assert!(length(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_part_ends_after_it_starts() {
        let part = |start, end| SpanArgs { start, end };
        for (start, end) in [(Some(2.0), Some(2.0)), (Some(3.0), Some(2.0)), (None, Some(0.0))] {
            assert_eq!(part(start, end).check().unwrap_err().class, FailureClass::Usage);
        }
        assert!(part(Some(2.0), None).check().is_ok() && part(None, Some(1.0)).check().is_ok());
    }
}
