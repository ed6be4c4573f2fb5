//! The part of a video to caption, and its pieces.

use std::path::Path;

use crate::cli::args::part::{Format, PartArgs, SceneArgs, Segments, SpanArgs};
use specreel_client::{Transcript, asked::check_prompt, present::text::shortened, speech::Speech};
use specreel_engine::RunRequest;
use specreel_record::{Failure, Segment, Span, clock};
use specreel_video::{self as video, Division, Sampling, Scenes, cuts::Progress};

/// Bytes of captions in the prompt of a summary: longer ones are cut, all alike.
const OUTLINE: usize = 32_000;

/// Frames of the whole video that a summary sees.
const SUMMARY_FRAMES: usize = 32;

/// What is said in a video, and notes on it.
pub type Heard = (Transcript, Vec<String>);

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

impl SceneArgs {
    /// Fails if the options contradict each other, or have no effect on such segments (class usage).
    pub fn check(&self, segments: Option<Segments>) -> Result<(), Failure> {
        let limits = [
            ("--scene-threshold", self.scene_threshold),
            ("--min-segment", self.min_segment),
            ("--max-segment", self.max_segment),
        ];
        if segments != Some(Segments::Scenes)
            && let Some((option, _)) = limits.iter().find(|(_, value)| value.is_some())
        {
            return Err(Failure::usage(
                format!("{option} is an option of --segments scenes"),
                "add --segments scenes",
            ));
        }
        let Scenes { shortest_s, longest_s, .. } = self.scenes();
        if longest_s < 2.0 * shortest_s {
            return Err(Failure::usage(
                format!("--max-segment {longest_s} is less than twice --min-segment {shortest_s}"),
                "the parts of a scene that is too long must not be too short",
            ));
        }
        Ok(())
    }

    /// How a video is divided into such segments.
    pub fn division(&self, segments: Segments) -> Division {
        match segments {
            Segments::Seconds(seconds) => Division::Even(seconds),
            Segments::Scenes => Division::Scenes(self.scenes()),
        }
    }

    fn scenes(&self) -> Scenes {
        let default = Scenes::default();
        Scenes {
            threshold: self.scene_threshold.unwrap_or(default.threshold),
            shortest_s: self.min_segment.unwrap_or(default.shortest_s),
            longest_s: self.max_segment.unwrap_or(default.longest_s),
        }
    }
}

impl PartArgs {
    /// Check the options without the video. Fails if they contradict each other (class usage).
    pub fn check(&self) -> Result<(), Failure> {
        self.span.check()?;
        self.scenes.check(self.segments)?;
        if self.summary.is_some() {
            if self.segments.is_none() {
                return Err(Failure::usage(
                    "--summary sums up segments",
                    "add --segments 30 or --segments scenes",
                ));
            }
            if matches!(self.format, Format::Srt | Format::Vtt) {
                return Err(Failure::usage(
                    "subtitles have no place for a summary",
                    "use --format text, json, chapters or youtube",
                ));
            }
        }
        Ok(())
    }

    /// How the video is divided; `None` if it is not.
    pub fn division(&self) -> Option<Division> {
        self.segments.map(|segments| self.scenes.division(segments))
    }

    /// The runs of a request: itself for a whole video as text, else one for each piece; and what is said in the video, with notes.
    /// `listening` reports how far a speech model is, `searching` the search for scenes.
    pub fn runs(
        &self,
        request: RunRequest,
        listening: Progress<'_>,
        searching: Progress<'_>,
    ) -> Result<(Vec<RunRequest>, Option<Heard>), Failure> {
        let Self { span, segments, format, .. } = *self;
        let transcript =
            Speech::of(&self.speech.source())?.in_video(&request.video, span.between(), listening)?;
        // A picture has no parts, and nothing is said in it.
        let is_said = transcript.as_ref().is_some_and(|transcript| !transcript.is_empty());
        if span.is_whole() && segments.is_none() && format == Format::Text && !is_said {
            return Ok((vec![request], transcript.map(|said| with_notes(said, f64::INFINITY))));
        }
        let spans = video::segments_with(&request.video, span.start, span.end, self.division(), searching)?;
        let end = spans.last().filter(|_| self.span.end.is_none()).map_or(f64::INFINITY, |last| last.end);
        let (first, count) = (request.run, spans.len());
        let piece = |(index, span): (usize, Span)| {
            let mut piece = RunRequest {
                run: first + index as u64,
                span: Some(span),
                segment: segments.map(|_| Segment { first, index, count }),
                ..request.clone()
            };
            if let Some(transcript) = &transcript {
                transcript.precede(&mut piece);
            }
            piece
        };
        let requests: Vec<RunRequest> = spans.into_iter().enumerate().map(piece).collect();
        requests.iter().try_for_each(|request| check_prompt(&request.prompt))?;
        Ok((requests, transcript.map(|said| with_notes(said, end))))
    }
}

/// What is said in a video of so many seconds, with notes on it.
fn with_notes(said: Transcript, video_s: f64) -> Heard {
    let notes = said.notes(video_s);
    (said, notes)
}

/// The run that sums up the captions of a video's pieces, of which there are `count`, by this prompt. It sees a few frames of the
/// whole, and writes free text.
pub fn summary(asked: &str, first: RunRequest, count: usize, captions: &[(Span, String)]) -> RunRequest {
    let all: usize = captions.iter().map(|(_, text)| text.len()).sum();
    let share = if all > OUTLINE { OUTLINE / captions.len() } else { all };
    let line = |(span, text): &(Span, String)| {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let (start, end) = (clock(span.start), clock(span.end));
        format!("[{start} - {end}] {}\n", shortened(&text, share))
    };
    let lines: String = captions.iter().map(line).collect();
    let start = first.span.map_or(0.0, |span| span.start);
    let end = captions.last().map_or(start, |(span, _)| span.end);
    RunRequest {
        run: first.run + count as u64,
        span: Some(Span { start, end }),
        segment: None,
        summary_of: Some(first.run),
        prompt: format!("Captions of the parts of the video, in order:\n{lines}\n{asked}"),
        sampling: match first.sampling {
            Sampling::Frames(count) => Sampling::Frames(count),
            _ => Sampling::Frames(SUMMARY_FRAMES),
        },
        constraint: None,
        ..first
    }
}
