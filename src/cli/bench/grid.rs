//! Columns of text: the first to the left, numbers to the right.

use unicode_width::UnicodeWidthStr;

/// Rows with their cells in columns, two spaces apart, each row ending its line.
pub fn grid(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns)
        .map(|c| rows.iter().filter_map(|r| r.get(c)).map(|cell| cell.width()).max().unwrap_or(0))
        .collect();
    let mut out = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let pad = " ".repeat(width - cell.width());
            line += &match column {
                0 => format!("{cell}{pad}"),
                _ => format!("  {pad}{cell}"),
            };
        }
        out += line.trim_end();
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let row = |cells: &[&str]| cells.iter().map(|c| (*c).to_owned()).collect::<Vec<_>>();
        let text = grid(&[row(&["method", "tau", "x"]), row(&["é", "-", "12.5"]), row(&["naive ~", "2.32"])]);
        assert_eq!(text, "method    tau     x\né           -  12.5\nnaive ~  2.32\n");
        assert_eq!(grid(&[]), "");
    }
}
