//! The comparison as text: table, notes on its figures, differences.

use super::{
    differences::differences,
    table::table,
    wrap::{sentence, wrap},
};
use specreel_client::present::statistics::comparison_notes;
use specreel_record::{Comparison, RowState, RunLog};

/// Where the text is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Columns of the terminal; none without a terminal.
    pub width: Option<usize>,
    /// Whether styles are shown.
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
    let waiting = comparison.rows.iter().filter(|row| row.state == RowState::Waiting);
    let why = waiting.filter_map(|row| Some((&row.method, row.failure.as_ref()?)));
    notes.extend(why.map(|(method, failure)| format!("{method} is left out: {}.", failure.error)));
    if !dropped.is_empty() {
        notes.push(format!("Columns that do not fit this terminal: {}.", dropped.join(", ")));
    }
    let notes = wrap(&sentence(&notes.join(" ")), 0, look);
    format!("{table}\n{notes}{}", differences(comparison, runs, look))
}
