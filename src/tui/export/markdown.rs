//! A run as Markdown: the caption with what the target would not have written in emphasis, and the account.

use super::{account, title, together};
use crate::tui::model::run::Run;

pub(super) fn write(runs: &[&Run]) -> String {
    let Some(whole) = together(runs) else { return String::new() };
    let about = &whole.run.subject;
    let mark = if whole.run.lossless { "lossless" } else { "lossy" };
    let quote = |text: &str| escape(text).replace('\n', "\n> ");
    let mut out = format!("# {}\n\n", escape(&title(whole.run)));
    for turn in &about.before {
        out += &format!("> {}\n\n{}\n\n", quote(&turn.prompt), escape(turn.answer.trim()));
    }
    out += &format!("> {}\n\n", quote(&about.prompt));
    for run in runs {
        if let Some(span) = run.subject.span.filter(|_| run.group().is_some()) {
            out = format!("{}\n\n## {span}\n\n", out.trim_end());
        }
        out += caption(run).trim_start_matches(' ');
    }
    out = out.trim_end().to_owned();
    out += &format!("\n\n`{}` ({mark})", whole.run.label);
    if !whole.run.lossless {
        out += "; what the target would not have written is in *italics*";
    }
    out += ".\n\n| | |\n|---|---|\n";
    for (name, value) in account(&whole) {
        out += &format!("| {name} | {} |\n", escape(&value));
    }
    out
}

/// The caption, with what was loosened in italics.
fn caption(run: &Run) -> String {
    let mut out = String::new();
    for piece in run.log.chunks() {
        let (text, loosened) = (escape(&piece.text), !piece.verdict.is_strict());
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

/// Text that Markdown leaves alone.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
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
    fn what_was_loosened_is_in_italics_and_nothing_else_is_markup() {
        let text = write(&[&super::super::tests::run()]);
        assert!(
            text.starts_with("# A \\<b\\> \\& c\n\n> Describe \\*this\\*.\n\nA red *ball*. rolls."),
            "{text}"
        );
        assert!(text.contains("`lvspec` (lossy)") && text.contains("| verdicts | exact 2"), "{text}");
    }
}
