//! A table, as text and in markdown.

use specreel_client::present::grid::lay_out;

/// Rows of words, the head first; the first `left` columns are set to the left.
pub struct Grid {
    left: usize,
    rows: Vec<Vec<String>>,
}

impl Grid {
    pub fn new(head: &[&str], left: usize, rows: Vec<Vec<String>>) -> Self {
        let head = head.iter().map(|&word| word.to_owned()).collect();
        Self { left, rows: std::iter::once(head).chain(rows).collect() }
    }

    /// In columns, for a terminal.
    pub fn text(&self) -> String {
        lay_out(&self.rows, |column| column >= self.left, |_, _, cell| cell.to_owned())
    }

    pub fn markdown(&self) -> String {
        let rule = |column: usize| if column < self.left { "---|" } else { "---:|" };
        let rules: String = (0..self.rows[0].len()).map(rule).collect();
        let mut lines: Vec<String> =
            self.rows.iter().map(|row| format!("| {} |\n", row.join(" | "))).collect();
        lines.insert(1, format!("|{rules}\n"));
        lines.concat()
    }
}
