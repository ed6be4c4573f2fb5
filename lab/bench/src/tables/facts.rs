//! What captions say, and how far it would vary with other clips.

use super::{Row, dash, name, narrow, words};
use crate::summary::Spread;

/// Facts kept, precision and tau, each with its interval; `None` where no method has intervals.
pub(super) fn table(rows: &[Row<'_>], with_facts: bool, columns: Option<usize>) -> Option<String> {
    if rows.iter().all(|row| row.summary.spread.is_none()) {
        return None;
    }
    let mut cells = vec![words(&["95 % intervals", "facts", "kept", "precision", "false facts", "tau"])];
    for row in rows {
        let s = row.summary;
        let end = |of: fn(&Spread) -> Option<[f64; 2]>| s.spread.as_ref().and_then(of);
        let share = |of| end(of).map_or_else(dash, |ends| within(ends, 100.0, 1) + " %");
        let number = |of| end(of).map_or_else(dash, |ends| within(ends, 1.0, 2));
        cells.push(vec![
            name(row),
            share(|spread| spread.facts_share),
            share(|spread| spread.retention),
            share(|spread| spread.precision),
            number(|spread| spread.false_per_caption),
            number(|spread| spread.tau),
        ]);
    }
    let mut ranks = vec![0, 4, 1, 2, 3, 5];
    if !with_facts {
        let known = 1..5;
        cells.iter_mut().for_each(|row| drop(row.drain(known.clone())));
        ranks.drain(known);
    }
    let legend = "Other clips would give figures within these bounds (bootstrap over clips).";
    Some(narrow(cells, &ranks, legend, columns))
}

/// `71.9–80.1`: the ends of an interval, times `by`.
fn within([low, high]: [f64; 2], by: f64, digits: usize) -> String {
    let [low, high] = [low * by, high * by];
    format!("{low:.digits$}–{high:.digits$}")
}
