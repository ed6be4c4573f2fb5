//! The part of a video to caption, and its pieces.

use std::path::Path;

use crate::cli::{
    args::part::{Format, PartArgs, SpanArgs},
    config::Config,
};
use specreel_engine::RunRequest;
use specreel_record::{Cues, Failure, Segment, Span};
use specreel_video as video;

impl SpanArgs {
    /// Check the times without the video. Fails if the part ends before it starts (class usage).
    pub fn check(self) -> Result<(), Failure> {
        match (self.start, self.end) {
            (start, Some(end)) if start.unwrap_or(0.0) >= end => Err(Failure::usage(
                format!("--end {end} is not after --start {}", start.unwrap_or(0.0)),
                "for example: --start 0:30 --end 1:10",
            )),
            _ => Ok(()),
        }
    }

    /// The part of this video; `None` if it is the whole video.
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
    pub fn cues(&self, config: &Config) -> Cues {
        self.cues.or(config.values.cues).unwrap_or_default()
    }

    /// The runs of a request: itself for a whole video as text, else one for each piece.
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
