//! Columns of text, two spaces apart.

use unicode_width::UnicodeWidthStr;

/// Rows as lines: the first column is aligned to the left, the others, numbers, to the right.
pub fn grid(rows: &[Vec<String>]) -> String {
    lay_out(rows, |column| column > 0)
}

/// The same with every column aligned to the left.
pub fn columns(rows: &[Vec<String>]) -> String {
    lay_out(rows, |_| false)
}

fn lay_out(rows: &[Vec<String>], to_the_right: impl Fn(usize) -> bool) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns)
        .map(|c| rows.iter().filter_map(|r| r.get(c)).map(|cell| cell.width()).max().unwrap_or(0))
        .collect();
    let mut out = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let (pad, gap) = (" ".repeat(width - cell.width()), if column == 0 { "" } else { "  " });
            line += gap;
            line += &if to_the_right(column) { format!("{pad}{cell}") } else { format!("{cell}{pad}") };
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
    #[test]
    fn columns_are_aligned() {
        let rows = [vec!["a".into(), "b".into()], vec!["日本".into(), String::new()], vec!["x".into()]];
        assert_eq!(columns(&rows), "a     b\n日本\nx\n");
    }
}
