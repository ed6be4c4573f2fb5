//! Which part of a video is captioned, in how many pieces, and how they are printed.

use clap::{Args, ValueEnum};

use crate::{
    engine::RunRequest,
    record::{Failure, FailureClass, Segment, Span, Subtitles},
    video,
};

/// A part of a video.
#[derive(Debug, Default, Args)]
pub struct PartArgs {
    /// Begin here: seconds, mm:ss or hh:mm:ss
    #[arg(long, allow_hyphen_values = true, value_name = "T", value_parser = time)]
    pub start: Option<f64>,
    /// End here, likewise
    #[arg(long, allow_hyphen_values = true, value_name = "T", value_parser = time)]
    pub end: Option<f64>,
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

impl PartArgs {
    /// What can be said without a look at the video.
    ///
    /// # Errors
    /// The part ends before it begins (class usage).
    pub fn check(&self) -> Result<(), Failure> {
        match (self.start, self.end) {
            (start, Some(end)) if start.unwrap_or(0.0) >= end => Err(Failure {
                class: FailureClass::Usage,
                error: format!("--end {end} is not after --start {}", start.unwrap_or(0.0)),
                hint: Some("give times of the video, such as --start 0:30 --end 1:10".into()),
            }),
            _ => Ok(()),
        }
    }

    /// The runs that a request becomes: itself for a whole video as text, else one for each piece.
    ///
    /// # Errors
    /// The part is not in the video, or too short.
    pub fn runs(&self, request: RunRequest) -> Result<Vec<RunRequest>, Failure> {
        let Self { start, end, segments, format } = *self;
        if start.is_none() && end.is_none() && segments.is_none() && format == Format::Text {
            return Ok(vec![request]);
        }
        let spans = video::segments(&request.video, start, end, segments)?;
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
    let wrong = || "a time is written in seconds, as mm:ss or as hh:mm:ss, for example 90, 1:30 or 0:01:30.5".to_owned();
    let parts: Vec<&str> = text.split(':').collect();
    let (last, before) = parts.split_last().ok_or_else(wrong)?;
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let seconds = last.parse().ok().filter(|s: &f64| digits(last) && s.is_finite()).ok_or_else(wrong)?;
    let mut whole = 0u32;
    for (i, part) in before.iter().enumerate() {
        let n: u32 = part.parse().ok().filter(|_| digits(part)).ok_or_else(wrong)?;
        if i > 0 && n > 59 {
            return Err(wrong());
        }
        whole = whole.checked_mul(60).and_then(|w| w.checked_add(n)).ok_or_else(wrong)?;
    }
    if before.len() > 2 || (!before.is_empty() && seconds >= 60.0) {
        return Err(wrong());
    }
    Ok(f64::from(whole) * 60.0 + seconds)
}

/// Read the length of a piece.
fn length(text: &str) -> Result<f64, String> {
    let seconds = time(text)?;
    if seconds < 1.0 { Err("a piece is at least one second long".into()) } else { Ok(seconds) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_a_video() {
        let table =
            [("0", 0.0), ("90", 90.0), ("1.5", 1.5), ("1:30", 90.0), ("90:00", 5400.0), ("1:00:02.25", 3602.25)];
        for (text, seconds) in table {
            assert_eq!(time(text), Ok(seconds), "{text}");
        }
        for bad in
            ["", "-1", "1:", ":1", "1:60", "1:99:00", "1:2:3:4", "inf", "nan", "1e3", "+3", "1:-2", "x", "99999999999:00"]
        {
            assert!(time(bad).is_err(), "{bad}");
        }
        assert_eq!(length("0:20"), Ok(20.0));
        assert!(length("0.5").is_err() && length("0").is_err());
    }

    #[test]
    fn a_part_ends_after_it_begins() {
        let part = |start, end| PartArgs { start, end, ..PartArgs::default() };
        for (start, end) in [(Some(2.0), Some(2.0)), (Some(3.0), Some(2.0)), (None, Some(0.0))] {
            assert_eq!(part(start, end).check().unwrap_err().class, FailureClass::Usage);
        }
        assert!(part(Some(2.0), None).check().is_ok() && part(None, Some(1.0)).check().is_ok());
    }
}
