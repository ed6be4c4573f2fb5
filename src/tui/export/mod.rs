//! A run as a file for people: plain text, Markdown, or a page that needs nothing else.

mod html;
mod markdown;

use crate::record::Stats;

use super::{model::run::Run, text};

/// A kind of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Text,
    Markdown,
    Html,
}

impl Format {
    pub const ALL: [Format; 3] = [Format::Text, Format::Markdown, Format::Html];

    /// The ending of its files.
    pub fn ending(self) -> &'static str {
        match self {
            Format::Text => "txt",
            Format::Markdown => "md",
            Format::Html => "html",
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Format::Text => "text",
            Format::Markdown => "Markdown",
            Format::Html => "HTML",
        }
    }

    pub fn about(self) -> &'static str {
        match self {
            Format::Text => "the caption alone",
            Format::Markdown => "the caption, what was asked, and the account",
            Format::Html => {
                "a page by itself: every token by its verdict, the reason under the pointer, charts"
            }
        }
    }

    /// The run as such a file.
    pub fn write(self, run: &Run) -> String {
        match self {
            Format::Text => format!("{}\n", run.text().trim()),
            Format::Markdown => markdown::write(run),
            Format::Html => html::write(run),
        }
    }
}

/// A name for a run's file, without its ending: `star-lvspec`.
pub(crate) fn file_name(run: &Run) -> String {
    let clip = run.about.video.file_stem().unwrap_or_default().to_string_lossy();
    let method = run.about.method.as_ref().map_or(run.about.label.as_str(), |m| &m.name);
    let plain = |name: &str| -> String {
        let fine = |c: char| if c.is_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '-' };
        name.chars().take(60).map(fine).collect::<String>().trim_matches(['-', '.']).to_owned()
    };
    format!("{}-{}", plain(&clip), plain(method))
}

/// The account in rows of name and value; what is not known is left out.
fn account(run: &Run) -> Vec<(&'static str, String)> {
    let stats: &Stats = &run.stats;
    let mut rows = vec![
        ("tokens", format!("{} in {} steps", stats.emitted, stats.steps)),
        ("speed", format!("{:.1} tokens/s", stats.tokens_per_second)),
    ];
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
    if !run.about.lossless {
        rows.push(("loosened", format!("{:.1} %", 100.0 * stats.loosened_share())));
    }
    if stats.timings.total_ms() > 0.0 {
        rows.push(("time", text::millis(stats.timings.total_ms())));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{record::Step, tui::testing};

    pub(super) fn run() -> Run {
        let mut run = testing::after_a_run().model().runs.shown().unwrap().clone();
        run.about.title = "A <b> & c".into();
        run.about.prompt = "Describe *this*.".into();
        run.stats = Stats::default();
        run.steps.iter().for_each(|step| run.stats.add(step));
        let step: &mut Step = &mut run.steps[0];
        step.tokens[1].target_text = Some(" \"disc\"".into());
        run
    }

    #[test]
    fn names_are_those_of_files() {
        let mut run = run();
        assert_eq!(file_name(&run), "0-lvspec");
        run.about.video = "/v/a b/../Üb er.mp4".into();
        assert_eq!(file_name(&run), "Üb-er-lvspec");
    }

    #[test]
    fn text_is_the_caption_alone() {
        assert_eq!(Format::Text.write(&run()), "A red ball. rolls.\n");
    }
}
