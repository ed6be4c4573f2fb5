//! A run as Markdown: the caption with loosened text in italics, and the statistics.

use super::{Names, piece_span};
use crate::present::{statistics::account, text::clean, verdicts::lossless_mark};
use specreel_record::{Pieces, RunLog};

pub(super) fn write(names: &Names<'_>, runs: &Pieces<'_>) -> String {
    let Some(first) = runs.first() else { return String::new() };
    let quote = |text: &str| escape(text).replace('\n', "\n> ");
    let mut out = format!("# {}\n\n", escape(&names.title(runs)));
    if let Some(started) = first.started() {
        for turn in &started.before {
            out += &format!("> {}\n\n{}\n\n", quote(&turn.prompt), escape(turn.answer.trim()));
        }
        out += &format!("> {}\n\n", quote(&started.prompt));
    }
    for run in runs.logs() {
        if let Some(span) = piece_span(run) {
            out = format!("{}\n\n## {span}\n\n", out.trim_end());
        }
        out += &caption(run);
    }
    let lossless = first.is_lossless();
    out = format!("{}\n\n`{}` ({})", out.trim_end(), clean(names.method), lossless_mark(lossless));
    if !lossless {
        out += "; text that the target would not have written is in *italics*";
    }
    out += ".\n\n| | |\n|---|---|\n";
    for (name, value) in account(runs) {
        out += &format!("| {name} | {} |\n", escape(&value));
    }
    out
}

fn caption(run: &RunLog) -> String {
    if let Some(text) = run.edited() {
        return format!("{} (edited)", escape(text.trim()));
    }
    let mut out = String::new();
    for chunk in run.chunks() {
        let (text, loosened) = (escape(&chunk.text), !chunk.verdict.is_strict());
        // Emphasis begins and ends at letters, not at spaces.
        let word = text.trim();
        if loosened && !word.is_empty() {
            let lead = text.len() - text.trim_start().len();
            let tail = text.trim_end().len();
            out += &format!("{}*{word}*{}", &text[..lead], &text[tail..]);
        } else {
            out += &text;
        }
    }
    out
}

/// Text that Markdown leaves as it is.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in clean(text).chars() {
        if matches!(c, '\\' | '`' | '*' | '_' | '{' | '}' | '[' | ']' | '<' | '>' | '#' | '|' | '~' | '&') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loosened_text_is_emphasised() {
        let text = write(&super::super::tests::NAMES, &Pieces::of([&super::super::tests::log()]));
        assert!(
            text.starts_with("# A \\<b\\> \\& c\n\n> Describe \\*this\\*.\n\nA red *ball*. rolls."),
            "{text}"
        );
        assert!(text.contains("`lvspec` (lossy)") && text.contains("| verdicts | exact 2"), "{text}");
    }
}
