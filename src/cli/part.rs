//! Which part of a video is captioned, in how many pieces, and how they are printed.

use std::path::Path;

use clap::{Args, ValueEnum};

use crate::{
    engine::RunRequest,
    present::export::Subtitles,
    record::{
        Failure, FailureClass, Segment, Span,
        span::{LEAST_SEGMENT_S, seconds},
    },
    video,
};

/// A part of a video.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct SpanArgs {
    /// Begin here: seconds, mm:ss or hh:mm:ss
    #[arg(long, allow_hyphen_values = true, value_name = "T", value_parser = time)]
    pub start: Option<f64>,
    /// End here, likewise
    #[arg(long, allow_hyphen_values = true, value_name = "T", value_parser = time)]
    pub end: Option<f64>,
}

/// A part of a video, its pieces, and how their captions are printed.
#[derive(Debug, Default, Args)]
pub struct PartArgs {
    /// Which part.
    #[command(flatten)]
    pub span: SpanArgs,
    /// Caption piece by piece, each so long, with time stamps; a short last piece is added to the one before
    #[arg(long, allow_hyphen_values = true, value_name = "SECONDS", value_parser = length)]
    pub segments: Option<f64>,
    /// What to print: text, or subtitles (SubRip, WebVTT)
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t, conflicts_with = "json")]
    pub format: Format,
}

/// How captions are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Text as it is written
    #[default]
    Text,
    /// SubRip
    Srt,
    /// WebVTT
    Vtt,
}

impl Format {
    /// The kind of subtitles, where it is one.
    pub fn subtitles(self) -> Option<Subtitles> {
        match self {
            Format::Text => None,
            Format::Srt => Some(Subtitles::Srt),
            Format::Vtt => Some(Subtitles::Vtt),
        }
    }
}

impl SpanArgs {
    /// What can be said without a look at the video.
    ///
    /// # Errors
    /// The part ends before it begins (class usage).
    pub fn check(self) -> Result<(), Failure> {
        match (self.start, self.end) {
            (start, Some(end)) if start.unwrap_or(0.0) >= end => Err(Failure {
                class: FailureClass::Usage,
                error: format!("--end {end} is not after --start {}", start.unwrap_or(0.0)),
                hint: Some("give times of the video, such as --start 0:30 --end 1:10".into()),
            }),
            _ => Ok(()),
        }
    }

    /// The part of this video; none where all of it is meant.
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
    /// The runs that a request becomes: itself for a whole video as text, else one for each piece.
    ///
    /// # Errors
    /// The part is not in the video, or too short.
    pub fn runs(&self, request: RunRequest) -> Result<Vec<RunRequest>, Failure> {
        let Self { span, segments, format } = *self;
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

/// Read a time of a video.
fn time(text: &str) -> Result<f64, String> {
    let example = "a time is written in seconds, as mm:ss or as hh:mm:ss, for example 90, 1:30 or 0:01:30.5";
    seconds(text).ok_or_else(|| example.to_owned())
}

/// Read the length of a piece.
fn length(text: &str) -> Result<f64, String> {
    let long = time(text)?;
    if long < LEAST_SEGMENT_S { Err("a piece is at least one second long".into()) } else { Ok(long) }
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
    fn a_part_ends_after_it_begins() {
        let part = |start, end| SpanArgs { start, end };
        for (start, end) in [(Some(2.0), Some(2.0)), (Some(3.0), Some(2.0)), (None, Some(0.0))] {
            assert_eq!(part(start, end).check().unwrap_err().class, FailureClass::Usage);
        }
        assert!(part(Some(2.0), None).check().is_ok() && part(None, Some(1.0)).check().is_ok());
    }
}
