//! The comparison as text: table, what its figures mean, differences.

use super::{
    differences::differences,
    table::table,
    wrap::{sentence, wrap},
};
use crate::record::{Comparison, RunRecord};

/// What the place of the text can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Columns of the terminal; none where there is no terminal.
    pub width: Option<usize>,
    /// Styles are shown.
    pub color: bool,
}

impl Look {
    /// Text in a style, if styles are shown.
    pub fn paint(&self, sgr: &str, text: &str) -> String {
        if self.color && !sgr.is_empty() { format!("\x1b[{sgr}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// All of it.
pub fn text(comparison: &Comparison, runs: &[RunRecord], sampled: bool, look: &Look) -> String {
    let (table, left_out) = table(comparison, look);
    let mut notes = notes(comparison, sampled);
    if !left_out.is_empty() {
        notes.push(format!("Left out for lack of room: {}.", left_out.join(", ")));
    }
    let notes = wrap(&sentence(&notes.join(" ")), 0, look);
    format!("{table}\n{notes}{}", differences(comparison, runs, look))
}

/// What the figures mean, in sentences.
/// `sampled`: one of the methods accepts by sampling, and the text is sampled.
pub fn notes(comparison: &Comparison, sampled: bool) -> Vec<String> {
    // Not what was asked for: an interrupt may have come before.
    let passes = comparison.rows.iter().map(|row| row.runs.len()).max().unwrap_or(0);
    let baseline = &comparison.baseline;
    let measured = comparison.rows.iter().any(|row| row.method == *baseline && row.figures.is_some());
    let mut notes = vec![if measured {
        format!(
            "Speedups are against {baseline} on this clip, measured here: decode counts from the first token on, \
             end to end from the file on."
        )
    } else {
        format!("There are no speedups: {baseline} did not finish.")
    }];
    if passes > 1 {
        notes.push(format!("Figures are of the run of median speed out of {passes}."));
    }
    if sampled {
        notes.push(
            "A method that accepts by sampling keeps the distribution, not the text; the other lossless ones keep both."
                .into(),
        );
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{RunState, StopReason};

    #[test]
    fn the_notes_say_what_the_figures_are() {
        let done =
            |run| RunRecord { state: RunState::Done(StopReason::Eos), ..RunRecord::new(run, "plain", true) };
        assert_eq!(notes(&Comparison::of(&[done(1)], "plain"), false).len(), 1);
        let waiting = RunRecord::new(3, "plain", true);
        let all = notes(&Comparison::of(&[done(1), done(2), waiting], "plain"), true).join(" ");
        for part in ["against plain", "out of 2", "sampling"] {
            assert!(all.contains(part), "{all}");
        }
        let comparison = Comparison::of(&[RunRecord::new(1, "plain", true)], "plain");
        assert_eq!(notes(&comparison, false), ["There are no speedups: plain did not finish."]);
    }
}
