//! A run as Markdown: the caption with what the target would not have written in emphasis, and the account.

use super::account;
use crate::tui::model::run::Run;

pub(super) fn write(run: &Run) -> String {
    let about = &run.about;
    let mark = if about.lossless { "lossless" } else { "lossy" };
    let mut out =
        format!("# {}\n\n> {}\n\n", escape(&about.title), escape(&about.prompt).replace('\n', "\n> "));
    for piece in &run.pieces {
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
    out = out.trim_end().to_owned();
    out += &format!("\n\n`{}` ({mark})", about.label);
    if !about.lossless {
        out += "; what the target would not have written is in *italics*";
    }
    out += ".\n\n| | |\n|---|---|\n";
    for (name, value) in account(run) {
        out += &format!("| {name} | {} |\n", escape(&value));
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
        let text = write(&super::super::tests::run());
        assert!(
            text.starts_with("# A \\<b\\> \\& c\n\n> Describe \\*this\\*.\n\nA red *ball*. rolls."),
            "{text}"
        );
        assert!(text.contains("`lvspec` (lossy)") && text.contains("| verdicts | exact 2"), "{text}");
    }
}
