//! Runs as files for people: plain text, Markdown, a self-contained HTML page, subtitles, chapters.

mod comparison;
mod events;
mod html;
mod markdown;
mod outline;
mod private;
pub mod subtitles;
mod trace;

use std::path::Path;

pub use comparison::{Compared, comparison_page};
pub use events::timed;
pub use html::style as page_style;
pub use outline::Outline;
pub use subtitles::Subtitles;
use subtitles::stamp;

use specreel_record::{Cues, Pieces, RunLog, Span};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Text,
    /// Caption, prompt and statistics as Markdown.
    Markdown,
    /// A self-contained page.
    Html,
    /// Who was at work when, for trace viewers.
    Trace,
    Srt,
    Vtt,
    /// Chapters as FFmpeg's metadata.
    Chapters,
    Youtube,
    /// Captions with times.
    Json,
}

impl Format {
    pub const ALL: [Format; 9] = [
        Format::Text,
        Format::Markdown,
        Format::Html,
        Format::Trace,
        Format::Srt,
        Format::Vtt,
        Format::Chapters,
        Format::Youtube,
        Format::Json,
    ];

    /// The formats that suit a run: those with times only if it is known which part of the video it is about.
    pub fn of(log: &RunLog) -> &'static [Format] {
        if span(log).is_some() { &Self::ALL } else { &Self::ALL[..4] }
    }

    /// The file name extension.
    pub fn ending(self) -> &'static str {
        match self {
            Format::Text => "txt",
            Format::Markdown => "md",
            Format::Html => "html",
            Format::Trace => "trace.json",
            Format::Srt => "srt",
            Format::Vtt => "vtt",
            Format::Chapters => "ffmetadata",
            Format::Youtube => "youtube.txt",
            Format::Json => "json",
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Format::Text => "text",
            Format::Markdown => "Markdown",
            Format::Html => "HTML",
            Format::Trace => "trace",
            Format::Srt => "SubRip",
            Format::Vtt => "WebVTT",
            Format::Chapters => "chapters",
            Format::Youtube => "YouTube",
            Format::Json => "JSON",
        }
    }

    pub fn about(self) -> &'static str {
        match self {
            Format::Text => "the caption",
            Format::Markdown => "caption, prompt and statistics",
            Format::Html => {
                "self-contained page: tokens colored by verdict, with reasons, statistics and charts"
            }
            Format::Trace => "when drafter and target were at work (Perfetto, chrome://tracing)",
            Format::Srt => "subtitles for video players (.srt)",
            Format::Vtt => "subtitles for web pages (.vtt)",
            Format::Chapters => "chapters for FFmpeg (.ffmetadata)",
            Format::Youtube => "chapters for a description on YouTube",
            Format::Json => "captions with their times",
        }
    }

    /// The contents of such a file for a run, or for the pieces of a video. Those with times leave out runs that did not finish.
    pub fn write(self, names: &Names<'_>, runs: &Pieces<'_>, cues: Cues) -> String {
        match self {
            Format::Text => text(runs),
            Format::Markdown => private::without_home(markdown::write(names, runs)),
            Format::Html => private::without_home(html::write(names, runs)),
            Format::Trace => trace::write(names, runs),
            Format::Srt => subtitle_file(Subtitles::Srt, cues, runs),
            Format::Vtt => subtitle_file(Subtitles::Vtt, cues, runs),
            Format::Chapters => Outline::Chapters.file(&captions(runs), None),
            Format::Youtube => Outline::Youtube.file(&captions(runs), None),
            Format::Json => {
                let runs: Vec<_> = timed_runs(runs).collect();
                let lines = runs.iter().flat_map(|(run, captions)| {
                    captions.iter().map(|(span, text)| (*span, text.as_str(), run.edited().is_some()))
                });
                outline::json_file(lines, None)
            }
        }
    }
}

/// What video and method are called in a file.
#[derive(Clone, Copy, Debug)]
pub struct Names<'a> {
    pub video: &'a str,
    /// The method, with the parameters that differ from its preset's.
    pub method: &'a str,
}

impl Names<'_> {
    /// The video; of a run about a part of it, which part.
    fn title(&self, runs: &Pieces<'_>) -> String {
        match runs.first().and_then(span).filter(|_| runs.progress().is_none()) {
            Some(span) => format!("{} · {span}", self.video),
            None => self.video.to_owned(),
        }
    }
}

/// A file name for a run, without its extension: `star-lvspec`.
pub fn file_name(video: &Path, method: &str) -> String {
    let clip = video.file_stem().unwrap_or_default().to_string_lossy();
    let plain = |name: &str| -> String {
        let fine = |c: char| if c.is_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '-' };
        name.chars().take(60).map(fine).collect::<String>().trim_matches(['-', '.']).to_owned()
    };
    format!("{}-{}", plain(&clip), plain(method))
}

fn span(log: &RunLog) -> Option<Span> {
    log.started()?.span
}

/// The part of the video that a piece is about; `None` for a run by itself.
fn piece_span(log: &RunLog) -> Option<Span> {
    log.started().filter(|started| started.segment.is_some())?.span
}

fn text(runs: &Pieces<'_>) -> String {
    let line = |run: &&RunLog| match piece_span(run) {
        Some(span) => format!("{} {}\n", stamp(span), run.shown().trim()),
        None => format!("{}\n", run.shown().trim()),
    };
    let logs = runs.logs();
    logs.iter().filter(|run| !run.chunks().is_empty() || logs.len() == 1).map(line).collect()
}

fn subtitle_file(kind: Subtitles, cues: Cues, runs: &Pieces<'_>) -> String {
    kind.file(cues, captions(runs).iter().map(|(span, text)| (*span, text.as_str())))
}

/// The captions of the runs that finished, or their events, with times.
fn captions(runs: &Pieces<'_>) -> Vec<(Span, String)> {
    timed_runs(runs).flat_map(|(_, captions)| captions).collect()
}

/// The runs that finished, with their captions or events.
fn timed_runs<'a>(runs: &Pieces<'a>) -> impl Iterator<Item = (&'a RunLog, Vec<(Span, String)>)> {
    let finished: Vec<&RunLog> = runs.logs().iter().copied().filter(|run| run.is_finished()).collect();
    finished.into_iter().filter_map(|run| Some((run, timed(span(run)?, &run.shown()))))
}

#[cfg(test)]
pub(crate) mod tests;
