//! A table, as text and in markdown.

/// Rows of words under a head; the first `left` columns are set to the left.
pub struct Grid {
    pub head: Vec<String>,
    pub left: usize,
    pub rows: Vec<Vec<String>>,
}

impl Grid {
    pub fn new(head: &[&str], left: usize, rows: Vec<Vec<String>>) -> Self {
        Self { head: head.iter().map(|&word| word.to_owned()).collect(), left, rows }
    }

    /// In columns, for a terminal.
    pub fn text(&self) -> String {
        let lines = || std::iter::once(&self.head).chain(&self.rows);
        let wide = |column: usize| lines().map(|line| line[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.head.len()).map(wide).collect();
        let line = |line: &Vec<String>| {
            let cells = line.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| {
                if column < self.left { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
            });
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
        };
        lines().map(line).collect()
    }

    /// As a markdown table.
    pub fn markdown(&self) -> String {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let rule = |column: usize| if column < self.left { "---|" } else { "---:|" };
        let rules: String = (0..self.head.len()).map(rule).collect();
        let rows: String = self.rows.iter().map(|row| line(row)).collect();
        format!("{}|{rules}\n{rows}", line(&self.head))
    }
}
