//! The columns of a comparison: titles, cells, and which of them go first where room is short.

use crate::record::{Comparison, Row, RowState};

/// Stands where there is nothing to say.
const NOTHING: &str = "–";

/// One column.
pub struct Column {
    /// Its title.
    pub title: &'static str,
    /// Numbers stand at the right.
    pub right: bool,
    /// The higher, the sooner it is left out; 0 stays.
    pub rank: u8,
    /// What stands in a row.
    pub cell: fn(&Comparison, &Row) -> String,
}

/// All columns in their order.
pub const COLUMNS: [Column; 9] = [
    Column { title: "method", right: false, rank: 0, cell: |_, row| row.method.clone() },
    Column { title: "kind", right: false, rank: 0, cell: |_, row| mark(row.lossless).into() },
    Column {
        title: "tokens/s",
        right: true,
        rank: 3,
        cell: |_, row| number(row.figures.as_ref().map(|f| format!("{:.1}", f.tokens_per_second))),
    },
    Column {
        title: "decode",
        right: true,
        rank: 1,
        cell: |_, row| number(row.figures.as_ref().and_then(|f| f.decode_speedup).map(times)),
    },
    Column {
        title: "end to end",
        right: true,
        rank: 6,
        cell: |_, row| number(row.figures.as_ref().and_then(|f| f.end_to_end_speedup).map(times)),
    },
    Column {
        title: "tau",
        right: true,
        rank: 5,
        cell: |_, row| number(row.figures.as_ref().and_then(|f| f.tau).map(|t| format!("{t:.2}"))),
    },
    Column {
        title: "per step",
        right: true,
        rank: 7,
        cell: |_, row| {
            number(row.figures.as_ref().and_then(|f| f.emitted_per_step).map(|t| format!("{t:.2}")))
        },
    },
    Column {
        title: "loosened",
        right: true,
        rank: 4,
        cell: |_, row| {
            let share = row.figures.as_ref().and_then(|f| f.loosened_share);
            number(share.map(|s| format!("{:.1} %", s * 100.0)))
        },
    },
    Column { title: "output", right: false, rank: 2, cell: output },
];

/// What stands beside a method's name on every face.
pub fn mark(lossless: bool) -> &'static str {
    if lossless { "lossless" } else { "lossy" }
}

/// How the output compares with the baseline's, or why there is none.
fn output(comparison: &Comparison, row: &Row) -> String {
    let equality = row.figures.as_ref().and_then(|f| f.equality.as_ref());
    match row.state {
        RowState::Waiting => "not run".into(),
        RowState::Cancelled => "interrupted".into(),
        RowState::Failed => "failed".into(),
        RowState::Done if row.method == comparison.baseline => "baseline".into(),
        RowState::Done => match equality {
            None => NOTHING.into(),
            Some(equality) => match equality.first_difference {
                None => "equal".into(),
                // People count from one.
                Some(index) => format!("differs at {}", index + 1),
            },
        },
    }
}

fn number(text: Option<String>) -> String {
    text.unwrap_or_else(|| NOTHING.into())
}

fn times(ratio: f64) -> String {
    format!("{ratio:.2}x")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Figures, stats::Equality};

    fn cells(row: Row) -> Vec<String> {
        let comparison = Comparison { baseline: "autoregressive".into(), rows: vec![row] };
        COLUMNS.iter().map(|column| (column.cell)(&comparison, &comparison.rows[0])).collect()
    }

    fn row(method: &str, state: RowState, figures: Option<Figures>) -> Row {
        Row {
            method: method.into(),
            lossless: method != "lvspec",
            state,
            runs: vec![],
            figures,
            failure: None,
        }
    }

    fn figures(first_difference: Option<usize>) -> Figures {
        Figures {
            run: 1,
            emitted: 9,
            tokens_per_second: 38.26,
            decode_speedup: Some(1.294),
            end_to_end_speedup: Some(0.5),
            tau: Some(2.0),
            emitted_per_step: Some(3.0),
            loosened_share: Some(0.125),
            equality: Some(Equality { equal: first_difference.is_none(), first_difference }),
        }
    }

    #[test]
    fn a_row_in_words() {
        assert_eq!(
            cells(row("lvspec", RowState::Done, Some(figures(Some(12))))),
            ["lvspec", "lossy", "38.3", "1.29x", "0.50x", "2.00", "3.00", "12.5 %", "differs at 13"]
        );
        assert_eq!(cells(row("naive", RowState::Done, Some(figures(None))))[8], "equal");
        assert_eq!(cells(row("autoregressive", RowState::Done, Some(figures(None))))[8], "baseline");
    }

    #[test]
    fn what_did_not_finish_says_so() {
        for (state, word) in [
            (RowState::Waiting, "not run"),
            (RowState::Cancelled, "interrupted"),
            (RowState::Failed, "failed"),
            (RowState::Done, "–"),
        ] {
            let cells = cells(row("naive", state, None));
            assert_eq!((cells[2].as_str(), cells[8].as_str()), ("–", word));
        }
    }
}
