//! The one writer of HTML pages: self-contained, without scripts; a policy in the page forbids loading anything. All foreign
//! text is escaped.
//!
//! [`write`] makes the page of a run; the page of a comparison is made of the same parts in `comparison`.

use std::fmt::Write as _;

use super::{Names, piece_span};
use crate::present::verdicts::{LOOKS, Look, Role, lossless_mark};
use crate::present::{reason::chunk_reason, statistics::account, text::clean};
use specreel_record::{Change, Pieces, RunLog, Step, Verdict, difference};

const STYLE: &str = include_str!("page.css");

pub(super) fn write(names: &Names<'_>, runs: &Pieces<'_>) -> String {
    let Some(first) = runs.first() else { return String::new() };
    let mut body = String::new();
    if let Some(started) = first.started() {
        for turn in &started.before {
            body += &paragraph("about", &escape(&turn.prompt));
            body += &paragraph("caption", &escape(turn.answer.trim()));
        }
        body += &paragraph("about", &escape(&started.prompt));
    }
    for run in runs.logs() {
        if let Some(span) = piece_span(run) {
            let _ = writeln!(body, "<h2>{span}</h2>");
        }
        body += &paragraph("caption", &caption(run));
    }
    let stats = runs.stats();
    let mark = lossless_mark(first.is_lossless());
    let mut legend = format!("{} ({mark})", escape(names.method));
    for (verdict, n) in stats.verdicts.iter() {
        let _ = write!(legend, " · {} {n}", token(verdict, verdict.why(), verdict.name()));
    }
    body += &paragraph("legend", &legend);
    body += "<table>\n";
    for (name, value) in account(runs) {
        let _ = writeln!(body, "<tr><td class=\"name\">{name}</td><td>{}</td></tr>", escape(&value));
    }
    body += "</table>\n";
    let steps: Vec<&Step> = runs.logs().iter().flat_map(|log| log.steps()).collect();
    if stats.judged > 0 {
        let title = "Accepted draft tokens of those judged, per step";
        body += &bars(&steps, title, |s| s.judged_freely() as f64, |s| s.accepted_freely() as f64);
    }
    let title = "Time per step in milliseconds: drafting (filled) and verifying";
    body += &bars(&steps, title, |s| s.draft_ms + s.verify_ms + s.other_ms, |s| s.draft_ms);
    page(&names.title(runs), &body)
}

pub(super) fn page(title: &str, body: &str) -> String {
    let title = escape(title);
    let style = style();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<h1>{title}</h1>\n{body}</body>\n</html>\n"
    )
}

/// The style sheet of all pages: light and dark, with a class for each role of verdicts.
pub fn style() -> String {
    let variables = |of: fn(&Look) -> &'static str| -> String {
        LOOKS.iter().map(|look| format!(" --{}: {};", look.name, of(look))).collect()
    };
    let (light, dark) = (variables(|look| look.light), variables(|look| look.dark));
    let mut out = format!(
        ":root {{ color-scheme: light dark; --ink: #1c2026; --paper: #fbfbf9; --dim: #5b6472; --line: #d5d8dd; \
         --bad: #b3261e;{light} }}\n@media (prefers-color-scheme: dark) {{ :root {{ --ink: #e2e5ea; --paper: #16181d; \
         --dim: #939aa8; --line: #3a404b; --bad: #f08080;{dark} }} }}\n{STYLE}"
    );
    for look in &LOOKS {
        let _ = write!(out, ".{0} {{ color: var(--{0});", look.name);
        for attribute in look.attributes.split(';') {
            out += match attribute {
                "1" => " font-weight: 700;",
                "3" => " font-style: italic;",
                "4" => " text-decoration: underline; text-underline-offset: .2em;",
                _ => "",
            };
        }
        out += " }\n";
    }
    out
}

/// A paragraph of this class. `html` is not escaped.
pub(super) fn paragraph(class: &str, html: &str) -> String {
    format!("<p class=\"{class}\">{html}</p>\n")
}

/// The caption in the styles of its verdicts, with the reason as the title of each chunk.
pub(super) fn caption(log: &RunLog) -> String {
    if let Some(text) = log.edited() {
        return format!("{} (edited)", escape(text.trim()));
    }
    if log.chunks().is_empty() {
        return escape(log.text().trim());
    }
    log.chunks().iter().map(|chunk| token(chunk.verdict, &chunk_reason(log, chunk), &chunk.text)).collect()
}

pub(super) fn token(verdict: Verdict, title: &str, text: &str) -> String {
    let class = Role::of(verdict).look().name;
    format!("<span class=\"{class}\" title=\"{}\">{}</span>", escape(title), escape(text))
}

/// The words of both texts, deletions and insertions marked.
pub(super) fn words(old: &str, new: &str) -> String {
    let mut out = String::new();
    for edit in difference(old, new) {
        if edit.spaced && !out.is_empty() {
            out.push(' ');
        }
        let text = escape(&edit.text);
        out += &match edit.change {
            Change::Same => text,
            Change::Deleted => format!("<del>{text}</del>"),
            Change::Inserted => format!("<ins>{text}</ins>"),
        };
    }
    out
}

/// One bar per step, a part of it filled.
fn bars(steps: &[&Step], title: &str, whole: impl Fn(&Step) -> f64, part: impl Fn(&Step) -> f64) -> String {
    let most = steps.iter().map(|step| whole(step)).fold(0.0, f64::max);
    if steps.is_empty() || most <= 0.0 {
        return String::new();
    }
    let (width, height) = (720.0, 90.0);
    let slot = width / steps.len() as f64;
    let mut out =
        format!("<figure><svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{title}\">");
    for (i, step) in steps.iter().enumerate() {
        let (x, w) = (i as f64 * slot, (slot * 0.8).min(40.0));
        let bar = |class: &str, value: f64| {
            let (y, h) = (height - value / most * height, value / most * height);
            format!("<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{w:.1}\" height=\"{h:.1}\"/>")
        };
        let _ = write!(
            out,
            "<g><title>step {}: {:.1} of {:.1}</title>{}{}</g>",
            i + 1,
            part(step),
            whole(step),
            bar("bar", whole(step)),
            bar("part", part(step))
        );
    }
    let _ = writeln!(out, "</svg><figcaption>{title}</figcaption></figure>");
    out
}

/// Text that is nothing but text, between tags and inside quotes.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    for c in clean(text).chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_self_contained_and_says_every_reason() {
        let page = write(&super::super::tests::NAMES, &Pieces::of([&super::super::tests::log()]));
        assert!(page.contains("<title>A &lt;b&gt; &amp; c</title>"), "{page}");
        assert!(
            page.contains("<span class=\"loosened\" title=\"loosened: differs from the target"),
            "{page}"
        );
        assert!(page.contains("the target&#39;s choice is “&quot;disc&quot;”"), "{page}");
        assert_eq!(page.matches("<figure>").count(), 2);
        for word in ["http:", "https:", "//", "src=", "<script", "<link", "@import", "url("] {
            assert!(!page.contains(word), "the page asks for {word}");
        }
        assert!(page.contains("default-src 'none'"));
        assert_eq!(page.matches("<span").count(), page.matches("</span>").count());
    }

    #[test]
    fn every_look_is_in_the_style_sheet() {
        let style = style();
        for look in &LOOKS {
            assert!(style.contains(&format!("\n.{} {{", look.name)), "{}", look.name);
            assert!(style.contains(look.light) && style.contains(look.dark), "{}", look.name);
        }
        assert!(style.contains(".loosened { color: var(--loosened); text-decoration: underline;"));
    }

    #[test]
    fn foreign_text_is_escaped() {
        assert_eq!(escape("\"'&<>\x1b[2J\u{7}"), "&quot;&#39;&amp;&lt;&gt;");
    }
}
