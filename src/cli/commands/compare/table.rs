//! The comparison as a table of text. On a narrow terminal, long names are cut and the least important columns dropped, but
//! never the one that says lossless or lossy.

use super::{text::Look, *};
use specreel_client::present::formats::NOTHING;
use specreel_client::present::grid::{fitting, lay_out};
use specreel_client::present::statistics::{COMPARISON, Measures};

/// The table, and the titles of the columns that were dropped.
pub fn table(comparison: &Comparison, look: &Look) -> (String, Vec<String>) {
    let columns = COMPARISON;
    let mut rows: Vec<Vec<String>> = vec![columns.iter().map(|column| column.title.to_owned()).collect()];
    rows.extend(comparison.rows.iter().map(|row| {
        let measures = Measures::of_row(comparison, row);
        columns.iter().map(|column| (column.cell)(&measures)).collect()
    }));
    let ranks: Vec<u8> = columns.iter().map(|column| column.rank).collect();
    let dropped = fitting(&mut rows, &ranks, look.width);
    let titles = rows[0].clone();
    let is_right = |at: usize| columns.iter().any(|column| column.title == titles[at] && column.right);
    let paint = |line: usize, at: usize, cell: &str| match (line, at) {
        (0, _) => look.paint("1", cell),
        (_, 0) => cell.to_owned(),
        _ => look.paint(tone(cell), cell),
    };
    (lay_out(&rows, is_right, paint), dropped)
}

/// The color of a cell, in addition to its word.
fn tone(cell: &str) -> &'static str {
    match cell {
        "lossy" => "33",
        "failed" => "31",
        "interrupted" | "not run" | NOTHING => "2",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use specreel_record::{Figures, Interval, Row, RowState, stats::Equality};

    fn comparison() -> Comparison {
        let row = |method: &str, figures| Row {
            method: method.into(),
            lossless: !method.starts_with("lv"),
            state: RowState::Done,
            runs: vec![1],
            figures,
            failure: None,
        };
        let plain = Figures {
            run: 1,
            interval: None,
            contention: None,
            emitted: 9,
            tokens_per_second: 100.0,
            decode_speedup: Some(1.0),
            end_to_end_speedup: Some(1.0),
            tau: None,
            emitted_per_step: None,
            loosened_share: None,
            equality: None,
        };
        let loose = Figures {
            decode_speedup: Some(1.52),
            interval: Some(Interval { low: 1.41, high: 1.63, pairs: 9 }),
            tokens_per_second: 1234.56,
            tau: Some(8.5),
            emitted_per_step: Some(9.5),
            loosened_share: Some(0.132),
            equality: Some(Equality { equal: false, first_difference: Some(0) }),
            ..plain.clone()
        };
        let failed = Row { state: RowState::Failed, ..row("naive", None) };
        Comparison {
            baseline: "autoregressive".into(),
            rows: vec![row("autoregressive", Some(plain)), row("lvspec", Some(loose)), failed],
        }
    }

    fn lines(width: Option<usize>) -> (Vec<String>, Vec<String>) {
        let (text, dropped) = table(&comparison(), &Look { width, color: false });
        (text.lines().map(String::from).collect(), dropped)
    }

    #[test]
    fn columns_are_aligned() {
        let (lines, dropped) = lines(None);
        assert_eq!(
            lines,
            [
                "method          kind       tau  per step  loosened  tokens/s          decode  end to end  output",
                "autoregressive  lossless     –         –         –       100              1x          1x  baseline",
                "lvspec          lossy     8.50      9.50    13.2 %      1230  1.5x (1.4–1.6)          1x  differs at token 1",
                "naive           lossless     –         –         –         –               –           –  failed",
            ]
        );
        assert!(dropped.is_empty());
    }

    #[test]
    fn the_least_important_columns_are_dropped_first() {
        assert_eq!(lines(Some(108)).1, [""; 0]);
        assert_eq!(lines(Some(88)).1, ["per step", "end to end"]);
        let (narrow, dropped) = lines(Some(42));
        assert_eq!(dropped, ["per step", "end to end", "tau", "loosened", "tokens/s", "output"]);
        assert_eq!(narrow[2], "lvspec          lossy     1.5x (1.4–1.6)");
    }

    #[test]
    fn every_width_gives_a_table() {
        for width in 0..100 {
            let (lines, _) = lines(Some(width));
            let widest = lines.iter().map(|line| specreel_client::present::text::width(line)).max().unwrap();
            assert!(widest <= width.max(16), "{width}: {lines:#?}");
            assert!(lines[2].contains("lossy"), "{width}: {lines:#?}");
        }
        assert_eq!(lines(Some(18)).0[1], "autoreg…  lossless");
    }

    #[test]
    fn color_changes_no_letter() {
        let (colored, _) = table(&comparison(), &Look { width: None, color: true });
        assert!(colored.contains("\x1b[33mlossy\x1b[0m") && colored.contains("\x1b[31mfailed\x1b[0m"));
        let mut plain = colored;
        for sgr in ["1", "2", "31", "33", "0"] {
            plain = plain.replace(&format!("\x1b[{sgr}m"), "");
        }
        assert_eq!(plain.lines().map(str::trim_end).collect::<Vec<_>>(), lines(None).0);
    }
}
