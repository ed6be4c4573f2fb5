//! The tables on a terminal.

use super::{cells, results::Compared};
use specreel_client::present::{grid::stacked, text::clean, wrap::hang};

const LEGEND: &str = "[a to b]: 95 % of resampled sets of clips (at least 6 clips). order: of a row and all rows that the paper puts \
     below it; within noise where the interval of a difference includes 0. ~ lossy. per step: tau with the bonus counted. M: accepted drafts \
     between two rejects under the parallel schedule, else per step. accepted: share of the drafts.\n";

/// A table with its legend, in this many columns of a terminal.
pub fn table(paper: &str, compared: &Compared, columns: Option<usize>) -> String {
    let table = compared.table();
    let mut out = format!("\n{}\n", cells::title(paper, compared));
    out += &hang(&format!("paper: {}\n", table.setting), columns, 2);
    if !table.note.is_empty() {
        out += &hang(&format!("here: {}\n", table.note), columns, 2);
    }
    out += &stacked(&cells::cells(compared), columns);
    for (row, method) in cells::methods(compared) {
        out += &hang(&clean(&format!("{row}: {}\n", method.replace('`', ""))), columns, 2);
    }
    for (measure, orders) in &compared.orders {
        let line = format!("{}: {}\n", measure.title(), cells::agreement(&orders.agreement));
        out += &hang(&line, columns, 2);
    }
    for difference in compared.differences() {
        let because = difference.because.map(|why| format!(". {why}")).unwrap_or_default();
        out += &hang(&format!("{}{because}\n", cells::difference(&difference)), columns, 2);
    }
    out
}

pub fn legend(columns: Option<usize>) -> String {
    format!("\n{}", hang(LEGEND, columns, 0))
}
