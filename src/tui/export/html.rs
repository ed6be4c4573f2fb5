//! A run as a page that needs nothing else: every token in the style of its verdict with the reason under the pointer, the
//! account, and the steps as bars.

use std::fmt::Write as _;

use super::{account, title, together};
use crate::{
    record::{Step, Verdict},
    tui::model::{inspect::reason, run::Run},
};

const STYLE: &str = "body{max-width:46rem;margin:3rem auto;padding:0 1rem;font:17px/1.6 system-ui,sans-serif;color:#1d2129;\
background:#fff}h1{font-size:1.3rem;margin:0}h2{font-size:1rem;margin:1.4rem 0 0}.asked,td:first-child,figcaption,.legend{color:#5b6472}.caption{font-size:1.15rem;\
white-space:pre-wrap}span[title]{cursor:help;border-radius:2px}span[title]:hover{background:#e8edf4}.corrected,.bonus{font-weight:\
600}.corrected{color:#8a5a00}.bonus{color:#2f6f2a}.loose{color:#0a6d79;text-decoration:underline}.shifted{color:#7a3fae;\
font-style:italic;text-decoration:underline}.plain{color:#5b6472}table{border-spacing:0}td{padding:.1rem 1.2rem .1rem 0}figure\
{margin:1.5rem 0}svg{width:100%;height:auto}@media(prefers-color-scheme:dark){body{background:#14171c;color:#d6dae2}.asked,\
td:first-child,figcaption,.legend,.plain{color:#939aa8}span[title]:hover{background:#2a303a}.corrected{color:#e6b673}.bonus{color:\
#9ad08a}.loose{color:#6fd0d8}.shifted{color:#c59bf0}}";

pub(super) fn write(runs: &[&Run]) -> String {
    let Some(whole) = &together(runs) else { return String::new() };
    let run = whole.run;
    let about = &run.subject;
    let mark = if run.lossless { "lossless" } else { "lossy" };
    let title = escape(&title(run));
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n<h1>{title}</h1>\n"
    );
    for turn in &about.before {
        let (prompt, answer) = (escape(&turn.prompt), escape(turn.answer.trim()));
        let _ = write!(out, "<p class=\"asked\">{prompt}</p>\n<p class=\"caption\">{answer}</p>\n");
    }
    let _ = writeln!(out, "<p class=\"asked\">{}</p>", escape(&about.prompt));
    for run in runs {
        if let Some(span) = run.subject.span.filter(|_| run.group().is_some()) {
            let _ = writeln!(out, "<h2>{span}</h2>");
        }
        let _ = writeln!(out, "<p class=\"caption\">{}</p>", caption(run));
    }
    let _ = write!(out, "<p class=\"legend\">{} ({mark})", escape(&run.label));
    for (verdict, n) in whole.stats.verdicts.iter() {
        let _ = write!(out, " · <span class=\"{}\">{verdict}</span> {n}", class(verdict));
    }
    out += "</p>\n<table>\n";
    for (name, value) in account(whole) {
        let _ = writeln!(out, "<tr><td>{name}<td>{}", escape(&value));
    }
    out += "</table>\n";
    if whole.stats.judged > 0 {
        out += &bars(
            &whole.steps,
            "Accepted drafts of those that were judged, step by step",
            |s| s.judged as f64,
            |s| s.accepted as f64,
        );
    }
    out += &bars(
        &whole.steps,
        "Time of the steps, in milliseconds: drafting below, verifying above",
        total,
        |s| s.draft_ms,
    );
    out += "</html>\n";
    out
}

/// The caption's tokens, each with the reason for it.
fn caption(run: &Run) -> String {
    let mut out = String::new();
    for piece in run.log.chunks() {
        let last = piece.tokens.end.saturating_sub(1);
        let why = run.log.token(last).map(|placed| {
            let mut words = format!("{}: {}", placed.token.verdict, reason(&placed));
            for (name, p) in
                [("target", placed.token.probability), ("drafter", placed.token.drafter_probability)]
            {
                if let Some(p) = p {
                    let _ = write!(words, "\n{name} {:.1} %", 100.0 * p);
                }
            }
            words
        });
        let _ = write!(
            out,
            "<span class=\"{}\" title=\"{}\">{}</span>",
            class(piece.verdict),
            escape(&why.unwrap_or_default()),
            escape(&piece.text)
        );
    }
    out
}

fn total(step: &Step) -> f64 {
    step.draft_ms + step.verify_ms + step.other_ms
}

/// One bar for each step, a part of it filled.
fn bars(steps: &[Step], title: &str, whole: impl Fn(&Step) -> f64, part: impl Fn(&Step) -> f64) -> String {
    let most = steps.iter().map(&whole).fold(0.0, f64::max);
    if steps.is_empty() || most <= 0.0 {
        return String::new();
    }
    let (width, height) = (720.0, 90.0);
    let slot = width / steps.len() as f64;
    let mut out =
        format!("<figure><svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{title}\">");
    for (i, step) in steps.iter().enumerate() {
        let (all, filled) = (whole(step) / most * height, part(step) / most * height);
        let (x, w) = (i as f64 * slot, (slot * 0.8).min(40.0));
        let _ = write!(
            out,
            "<g><title>step {}: {:.1} of {:.1}</title><rect x=\"{x:.1}\" y=\"{:.1}\" width=\"{w:.1}\" height=\"{all:.1}\" \
             fill=\"#9aa7b8\" opacity=\".45\"/><rect x=\"{x:.1}\" y=\"{:.1}\" width=\"{w:.1}\" height=\"{filled:.1}\" \
             fill=\"#1f8f9c\"/></g>",
            i + 1,
            part(step),
            whole(step),
            height - all,
            height - filled
        );
    }
    let _ = writeln!(out, "</svg><figcaption>{title}</figcaption></figure>");
    out
}

fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Plain => "plain",
        Verdict::Exact | Verdict::Sampled => "exact",
        Verdict::Corrected => "corrected",
        Verdict::Bonus => "bonus",
        Verdict::Shifted => "shifted",
        _ => "loose",
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_stands_alone_and_tells_every_reason() {
        let page = write(&[&super::super::tests::run()]);
        assert!(page.contains("<title>A &lt;b&gt; &amp; c</title>"), "{page}");
        assert!(page.contains("<span class=\"loose\" title=\"loosened: differs from the target"), "{page}");
        assert!(page.contains("it wanted “&quot;disc&quot;”"), "{page}");
        assert_eq!(page.matches("<figure>").count(), 2);
        for word in ["http:", "https:", "src=", "<script", "url("] {
            assert!(!page.contains(word), "the page asks for {word}");
        }
        assert_eq!(page.matches("<span").count(), page.matches("</span>").count());
    }
}
