//! A run as a file for people: plain text, Markdown, or a page that needs nothing else.

mod html;
mod markdown;

use super::{
    model::run::Run,
    text,
};
use crate::record::{Stats, Step, Subtitles, subtitles::stamp};

/// A kind of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Text,
    Markdown,
    Html,
    Srt,
    Vtt,
}

impl Format {
    pub const ALL: [Format; 5] = [Format::Text, Format::Markdown, Format::Html, Format::Srt, Format::Vtt];

    /// The kinds of file that a run can be: subtitles where it is known which part of a clip it is about.
    pub fn of(run: &Run) -> &'static [Format] {
        if run.subject.span.is_some() { &Self::ALL } else { &Self::ALL[..3] }
    }

    /// The ending of its files.
    pub fn ending(self) -> &'static str {
        match self {
            Format::Text => "txt",
            Format::Markdown => "md",
            Format::Html => "html",
            Format::Srt => "srt",
            Format::Vtt => "vtt",
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Format::Text => "text",
            Format::Markdown => "Markdown",
            Format::Html => "HTML",
            Format::Srt => "SubRip",
            Format::Vtt => "WebVTT",
        }
    }

    pub fn about(self) -> &'static str {
        match self {
            Format::Text => "the caption alone",
            Format::Markdown => "the caption, what was asked, and the account",
            Format::Html => {
                "a page by itself: every token by its verdict, the reason under the pointer, charts"
            }
            Format::Srt => "subtitles for players (.srt)",
            Format::Vtt => "subtitles for pages (.vtt)",
        }
    }

    /// Runs that belong together (one, or the pieces of a clip) as such a file. Subtitles leave out what was broken off.
    pub fn write(self, runs: &[&Run]) -> String {
        match self {
            Format::Text => text_of(runs),
            Format::Markdown => markdown::write(runs),
            Format::Html => html::write(runs),
            Format::Srt => subtitles(Subtitles::Srt, runs),
            Format::Vtt => subtitles(Subtitles::Vtt, runs),
        }
    }
}

/// The clip; of one part of it by itself, which.
fn title(run: &Run) -> String {
    if run.group().is_some() { run.subject.title.clone() } else { run.subject.name() }
}

/// The caption alone; of several pieces each with its times.
fn text_of(runs: &[&Run]) -> String {
    let line = |run: &&Run| match run.subject.span.filter(|_| run.group().is_some()) {
        Some(span) => format!("{} {}\n", stamp(span), run.log.shown().trim()),
        None => format!("{}\n", run.log.shown().trim()),
    };
    runs.iter().filter(|run| !run.log.chunks().is_empty() || runs.len() == 1).map(line).collect()
}

fn subtitles(kind: Subtitles, runs: &[&Run]) -> String {
    let whole = |run: &&&Run| run.log.is_finished();
    let captions: Vec<_> =
        runs.iter().filter(whole).filter_map(|run| Some((run.subject.span?, run.log.shown()))).collect();
    kind.file(captions.iter().map(|(span, text)| (*span, text.as_str())))
}

/// Runs that belong together as one: the statistics of all, and their steps one after the other.
struct Together<'a> {
    run: &'a Run,
    stats: Stats,
    steps: Vec<Step>,
    several: bool,
}

fn together<'a>(runs: &[&'a Run]) -> Option<Together<'a>> {
    let (run, rest) = runs.split_first()?;
    let mut stats = run.stats().clone();
    let steps = runs.iter().flat_map(|run| run.log.steps()).cloned().collect();
    rest.iter().for_each(|run| stats.add_run(run.stats()));
    if !rest.is_empty() {
        stats.speedup = None;
    }
    Some(Together { run, stats, steps, several: !rest.is_empty() })
}

/// A name for a run's file, without its ending: `star-lvspec`.
pub(crate) fn file_name(run: &Run) -> String {
    let clip = run.subject.video.file_stem().unwrap_or_default().to_string_lossy();
    let method = run.method.as_ref().map_or(run.label.as_str(), |m| &m.name);
    let plain = |name: &str| -> String {
        let fine = |c: char| if c.is_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '-' };
        name.chars().take(60).map(fine).collect::<String>().trim_matches(['-', '.']).to_owned()
    };
    format!("{}-{}", plain(&clip), plain(method))
}

/// The account in rows of name and value; what is not known is left out.
fn account(whole: &Together<'_>) -> Vec<(&'static str, String)> {
    let (run, stats) = (whole.run, &whole.stats);
    let mut rows = vec![("video", run.subject.video.display().to_string())];
    if !run.models().is_empty() {
        rows.push(("models", run.models()));
    }
    if let Some(seen) = run.log.prompt().filter(|_| !whole.several) {
        rows.push(("frames", format!("{}, {} visual tokens", seen.frames.len(), seen.visual_tokens)));
    }
    let steps = if stats.steps == 1 { "step" } else { "steps" };
    rows.extend([
        ("tokens", format!("{} in {} {steps}", stats.emitted, stats.steps)),
        ("speed", format!("{:.1} tokens/s", stats.tokens_per_second)),
    ]);
    if stats.judged > 0 {
        rows.push(("tau", format!("{:.2} accepted drafts a step", stats.tau)));
        rows.push(("emitted", format!("{:.2} tokens a step", stats.emitted_per_step)));
    }
    if let Some(speedup) = &stats.speedup {
        let kind = match speedup.baseline.kind {
            crate::record::BaselineKind::Measured => "measured",
            crate::record::BaselineKind::Calibrated => "calibrated",
        };
        rows.push((
            "speedup",
            format!("{:.2}× decoding, against {} ({kind})", speedup.decode, speedup.baseline.name),
        ));
    }
    let verdicts: Vec<_> = stats.verdicts.iter().map(|(verdict, n)| format!("{verdict} {n}")).collect();
    rows.push(("verdicts", verdicts.join(", ")));
    if !run.lossless {
        rows.push(("loosened", format!("{:.1} %", 100.0 * stats.loosened_share())));
    }
    if stats.timings.total_ms() > 0.0 {
        rows.push(("time", text::millis(stats.timings.total_ms())));
    }
    rows.push(("written by", concat!("specreel ", env!("CARGO_PKG_VERSION")).to_owned()));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        record::{Segment, Span, StopReason, Turn},
        tui::testing,
    };

    /// A run of two steps; its target would have written `"disc"` for its second token.
    pub(super) fn run() -> Run {
        let mut run = testing::after_a_run().model().runs.shown().unwrap().clone();
        run.subject.title = "A <b> & c".into();
        run.subject.prompt = "Describe *this*.".into();
        run.log = testing::log_with(&run.log, StopReason::Eos, |step| {
            if let Some(token) = step.tokens.iter_mut().find(|token| token.text == " ball") {
                token.target_text = Some(" \"disc\"".into());
            }
        });
        run
    }

    #[test]
    fn names_are_those_of_files() {
        let mut run = run();
        assert_eq!(file_name(&run), "0-lvspec");
        run.subject.video = "/v/a b/../Üb er.mp4".into();
        assert_eq!(file_name(&run), "Üb-er-lvspec");
    }

    /// Two segments of a clip; the second was cancelled.
    pub(super) fn pieces() -> [Run; 2] {
        let piece = |index: usize| {
            let mut run = run();
            let start = 30.0 * index as f64;
            run.subject.span = Some(Span { start, end: start + 30.0 });
            run.subject.segment = Some(Segment { first: 1, index, count: 2 });
            run
        };
        let [first, mut second] = [piece(0), piece(1)];
        second.log = testing::log_with(&second.log, StopReason::Cancelled, |_| {});
        [first, second]
    }

    #[test]
    fn pieces_are_one_file_with_their_times() {
        let [first, second] = pieces();
        let runs = [&first, &second];
        assert_eq!(
            Format::Text.write(&runs),
            "[00:00:00.000 --> 00:00:30.000] A red ball. rolls.\n[00:00:30.000 --> 00:01:00.000] A red ball. rolls.\n"
        );
        let srt = "1\n00:00:00,000 --> 00:00:30,000\nA red ball. rolls.\n\n";
        assert_eq!(Format::Srt.write(&runs), srt, "what was broken off is no subtitle");
        assert!(Format::Vtt.write(&runs).starts_with("WEBVTT\n\n00:00:00.000 --> "));
        let page = Format::Html.write(&runs);
        assert!(page.contains("<h2>0:30 – 1:00</h2>") && page.contains("10 in 4 steps"), "{page}");
        let markdown = Format::Markdown.write(&runs);
        assert!(markdown.contains("\n\n## 0:30 – 1:00\n\nA red *ball*"), "{markdown}");
        assert_eq!((Format::of(&first).len(), Format::of(&run()).len()), (5, 3));
    }

    #[test]
    fn a_conversation_is_kept_whole() {
        let mut run = run();
        let turn = |prompt: &str, answer: &str| Turn { prompt: prompt.into(), answer: answer.into() };
        run.subject.before = vec![turn("What <is> it?", "A *ball*.")];
        let page = Format::Html.write(&[&run]);
        assert!(page.contains("What &lt;is&gt; it?</p>\n<p class=\"caption\">A *ball*.</p>"), "{page}");
        let markdown = Format::Markdown.write(&[&run]);
        assert!(markdown.contains("> What \\<is\\> it?\n\nA \\*ball\\*.\n\n> Describe"), "{markdown}");
    }

    #[test]
    fn text_is_the_caption_alone() {
        assert_eq!(Format::Text.write(&[&run()]), "A red ball. rolls.\n");
    }
}
