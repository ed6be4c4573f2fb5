//! Columns of text, two spaces apart.
//!
//! On a terminal too narrow for a table, [`fitting`] drops its least important columns, and [`stacked`] prints it in parts.

use unicode_width::UnicodeWidthStr;

use super::text::fit;

const GAP: usize = 2;
/// The first column is cut to this width before a column is dropped.
const NAME: usize = 24;
/// And to this width when no more columns can be dropped.
const NAME_LEAST: usize = 6;

/// Rows as lines: the first column is aligned to the left, the others, numbers, to the right.
pub fn grid(rows: &[Vec<String>]) -> String {
    lay_out(rows, |column| column > 0, |_, _, cell| cell.to_owned())
}

/// The same with every column aligned to the left.
pub fn columns(rows: &[Vec<String>]) -> String {
    lay_out(rows, |_| false, |_, _, cell| cell.to_owned())
}

/// Make rows fit this many columns of the terminal; `None` if it is not one. Long names in the first column are cut and the
/// columns of the highest ranks dropped, but never rank 0. Returns the titles of the dropped ones, from the first row.
pub fn fitting(rows: &mut [Vec<String>], ranks: &[u8], columns: Option<usize>) -> Vec<String> {
    let Some(columns) = columns else { return Vec::new() };
    let mut ranks = ranks.to_vec();
    let mut dropped = Vec::new();
    if total(rows) > columns {
        cut(rows, NAME);
    }
    while total(rows) > columns {
        let Some((_, at)) = ranks.iter().zip(0..).max().filter(|(rank, _)| **rank > 0) else { break };
        ranks.remove(at);
        for (line, row) in rows.iter_mut().enumerate().filter(|(_, row)| at < row.len()) {
            let cell = row.remove(at);
            if line == 0 {
                dropped.push(cell);
            }
        }
    }
    let over = total(rows).saturating_sub(columns);
    let name = widths(rows).first().copied().unwrap_or(0);
    cut(rows, name.saturating_sub(over).max(NAME_LEAST));
    dropped
}

/// [`grid`] in parts that fit this many columns of the terminal, each with the first column.
pub fn stacked(rows: &[Vec<String>], columns: Option<usize>) -> String {
    let widths = widths(rows);
    let (Some(columns), Some((name, rest))) = (columns, widths.split_first()) else { return grid(rows) };
    let mut parts: Vec<Vec<usize>> = Vec::new();
    let mut used = usize::MAX;
    for (at, width) in rest.iter().enumerate() {
        used = used.saturating_add(GAP + width);
        if used > columns {
            parts.push(Vec::new());
            used = name + GAP + width;
        }
        parts.last_mut().into_iter().for_each(|part| part.push(at + 1));
    }
    let part = |part: &Vec<usize>| {
        let row = |row: &Vec<String>| -> Vec<String> {
            std::iter::once(&0).chain(part).filter_map(|&at| row.get(at).cloned()).collect()
        };
        grid(&rows.iter().map(row).collect::<Vec<_>>())
    };
    parts.iter().map(part).collect::<Vec<_>>().join("\n")
}

fn widths(rows: &[Vec<String>]) -> Vec<usize> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widest = |c: usize| rows.iter().filter_map(|r| r.get(c)).map(|cell| cell.width()).max().unwrap_or(0);
    (0..columns).map(widest).collect()
}

fn total(rows: &[Vec<String>]) -> usize {
    widths(rows).into_iter().map(|width| width + GAP).sum::<usize>().saturating_sub(GAP)
}

/// Cut the cells of the first column.
fn cut(rows: &mut [Vec<String>], width: usize) {
    rows.iter_mut().filter_map(|row| row.first_mut()).for_each(|cell| *cell = fit(cell, width));
}

/// Rows as lines: whether a column is aligned to the right, and a cell in its style, by line and column.
pub fn lay_out(
    rows: &[Vec<String>],
    to_the_right: impl Fn(usize) -> bool,
    paint: impl Fn(usize, usize, &str) -> String,
) -> String {
    let widths = widths(rows);
    let mut out = String::new();
    for (at, row) in rows.iter().enumerate() {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let (pad, gap) = (" ".repeat(width - cell.width()), if column == 0 { 0 } else { GAP });
            let cell = paint(at, column, cell);
            line += &" ".repeat(gap);
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

    fn table() -> Vec<Vec<String>> {
        let row = |cells: [&str; 4]| cells.map(str::to_owned).to_vec();
        vec![
            row(["method", "tau", "tokens/s", "output"]),
            row(["acceptance.lambda=0.25", "4.12", "120", "same"]),
        ]
    }

    #[test]
    fn columns_are_dropped_by_rank_and_names_cut() {
        let fitted = |columns: Option<usize>| {
            let mut rows = table();
            let dropped = fitting(&mut rows, &[0, 3, 1, 0], columns);
            (grid(&rows), dropped)
        };
        assert_eq!(fitted(None), fitted(Some(46)));
        assert!(fitted(None).1.is_empty());
        assert_eq!(fitted(Some(45)).1, ["tau"]);
        let (text, dropped) = fitted(Some(20));
        assert_eq!(
            (text.as_str(), dropped),
            ("method        output\nacceptance.…    same\n", vec!["tau".into(), "tokens/s".into()])
        );
        for columns in 0..60 {
            let (text, _) = fitted(Some(columns));
            assert!(text.lines().all(|line| line.width() <= columns.max(14)), "{columns}: {text}");
        }
    }

    #[test]
    fn a_table_in_parts_has_every_cell() {
        let text = stacked(&table(), Some(40));
        assert_eq!(
            text,
            "method                   tau  tokens/s\nacceptance.lambda=0.25  4.12       120\n\n\
             method                  output\nacceptance.lambda=0.25    same\n"
        );
        assert_eq!(stacked(&table(), None), grid(&table()));
        assert_eq!(stacked(&table(), Some(1)).matches("method").count(), 3);
        assert_eq!(stacked(&[], Some(1)), "");
    }
}
