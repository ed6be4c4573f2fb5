//! The comparison as text: table, notes on its figures, differences.

use super::{differences::differences, table::table, *};
use specreel_client::present::statistics::comparison_notes;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    pub width: Option<usize>,
    pub color: bool,
}

impl Look {
    /// Text in a style, if styles are shown.
    pub fn paint(&self, sgr: &str, text: &str) -> String {
        if self.color && !sgr.is_empty() { format!("\x1b[{sgr}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// The whole text. `sampled`: text is sampled, and one of the methods accepts by sampling.
pub fn text(comparison: &Comparison, runs: &[RunLog], sampled: bool, look: &Look) -> String {
    let (table, dropped) = table(comparison, look);
    let mut notes = comparison_notes(comparison, sampled);
    let why = comparison.rows.iter().filter_map(|row| {
        let what = if row.state == RowState::Waiting { "is left out" } else { "failed" };
        Some(format!("{} {what}: {}.", row.method, row.failure.as_ref()?.error))
    });
    notes.extend(why);
    if !dropped.is_empty() {
        notes.push(format!("Columns that do not fit this terminal: {}.", dropped.join(", ")));
    }
    let notes = wrap(&sentence(&notes.join(" ")), 0, look);
    format!("{table}\n{notes}{}", differences(comparison, runs, look))
}

#[derive(Clone, Debug, PartialEq)]
pub struct Word {
    pub text: String,
    pub sgr: &'static str,
    /// A space or a line break precedes it.
    pub spaced: bool,
}

pub fn sentence(text: &str) -> Vec<Word> {
    text.split_whitespace().map(|word| Word { text: word.into(), sgr: "", spaced: true }).collect()
}

/// Lines of at most the look's width, indented; a longer word gets a line of its own.
pub fn wrap(words: &[Word], indent: usize, look: &Look) -> String {
    let mut out = " ".repeat(indent);
    for (at, word) in words.iter().enumerate() {
        // Words without a space between them stay together.
        if at > 0 && word.spaced {
            out.push(' ');
        }
        out += &look.paint(word.sgr, &word.text);
    }
    hang(&(out + "\n"), look.width, indent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_without_figures_says_why() {
        use specreel_record::{Row, testing::failure};
        let row = |method: &str, state| Row {
            method: method.into(),
            lossless: true,
            state,
            runs: Vec::new(),
            figures: None,
            failure: Some(failure()),
        };
        let rows = vec![row("sparrow", RowState::Waiting), row("twin", RowState::Failed)];
        let comparison = Comparison { rows, ..Comparison::of(&[], "autoregressive") };
        let text = text(&comparison, &[], false, &Look { width: None, color: false });
        let why = failure().error;
        let said = format!("sparrow is left out: {why}. twin failed: {why}.");
        assert!(text.contains(&said), "{text}");
    }

    #[test]
    fn lines_break_between_words_only() {
        let look = Look { width: Some(10), color: false };
        assert_eq!(
            wrap(&sentence("one two three fourteen-long five"), 2, &look),
            "  one two\n  three\n  fourteen-long\n  five\n"
        );
        let mut words = sentence("aaaa bbbb");
        words.push(Word { text: "cc".into(), sgr: "", spaced: false });
        assert_eq!(wrap(&words, 0, &look), "aaaa\nbbbbcc\n");
        assert_eq!(
            wrap(&sentence("one two three"), 1, &Look { width: None, color: false }),
            " one two three\n"
        );
    }
}
