//! `--steps`: the ledger of steps as lines, each as soon as its step is over.

use specreel_client::present::ledger::{self, Mark, Piece, Row};
use specreel_client::present::{
    export::subtitles::stamp, formats::duration, text::width, verdicts::Role, wrap::hang,
};
use specreel_record::RunLog;

/// SGR parameters of drafts that were struck out: the rejected one is red, the ones after it are dim.
const REJECTED: &str = "9;31";
const DISCARDED: &str = "2;9";
const DIM: &str = "2";
/// Columns before a reason that is wider than the text's.
const INDENT: usize = 6;

#[derive(Debug, Default)]
pub(crate) struct Steps {
    /// With color; without, `~~` marks struck drafts.
    color: bool,
    /// Lines are cut to so many columns; none leaves them whole.
    columns: Option<usize>,
    run: u64,
    printed: usize,
}

impl Steps {
    pub fn new(color: bool, columns: Option<usize>) -> Self {
        Self { color, columns, ..Self::default() }
    }

    /// The steps that were not printed yet, under a heading at the beginning of a run.
    pub fn lines(&mut self, log: &RunLog) -> String {
        let n = log.steps().len();
        // Another run, or the text so far was withdrawn.
        if log.run() != self.run || n < self.printed {
            (self.run, self.printed) = (log.run(), 0);
        }
        let mut out = String::new();
        if self.printed == 0 && n > 0 {
            if let Some(span) = log.started().filter(|started| started.segment.is_some()).and_then(|s| s.span)
            {
                out += &(self.sgr(DIM, &stamp(span)) + "\n");
            }
            let head = columns(["step", "accepted", "draft", "verify"]) + "draft → target";
            out += &(self.sgr(DIM, head.trim_end()) + "\n");
        }
        for row in ledger::rows(log, self.printed..n) {
            out += &(self.line(&row) + "\n");
        }
        self.printed = n;
        out
    }

    fn line(&self, row: &Row) -> String {
        let number = row.number.to_string();
        let times = [row.draft_ms, row.verify_ms].map(duration);
        let head = columns([&number, &row.counts(), &times[0], &times[1]]);
        let room = self.columns.map(|columns| columns.saturating_sub(width(&head)));
        let marks =
            if self.color { 0 } else { 4 * usize::from(row.pieces.iter().any(|p| p.mark.is_struck())) };
        let mut pieces = match room {
            Some(room) => ledger::fit(&row.pieces, room.saturating_sub(marks)),
            None => row.pieces.clone(),
        };
        if !self.color {
            pieces = ledger::marked(&pieces);
        }
        let text: String = pieces.iter().map(|piece| self.piece(piece)).collect();
        let reason = format!("({})", row.reason);
        match room {
            Some(room) if ledger::width(&pieces) + 2 + width(&reason) > room => {
                // On lines of its own, below the text where it fits there.
                let indent = if width(&reason) <= room { width(&head) } else { INDENT };
                let below = hang(&format!("{:indent$}{reason}\n", ""), self.columns, indent);
                let below = below.lines().map(|line| self.sgr(DIM, line)).collect::<Vec<_>>().join("\n");
                format!("{head}{text}\n{below}")
            }
            _ => head + &text + "  " + &self.sgr(DIM, &reason),
        }
    }

    fn piece(&self, piece: &Piece) -> String {
        match piece.mark {
            Mark::Token(verdict) => self.sgr(&Role::of(verdict).look().sgr(true), &piece.text),
            Mark::Rejected => self.sgr(REJECTED, &piece.text),
            Mark::Discarded => self.sgr(DISCARDED, &piece.text),
            Mark::Unused | Mark::Between => self.sgr(DIM, &piece.text),
        }
    }

    fn sgr(&self, sgr: &str, text: &str) -> String {
        if !self.color || sgr.is_empty() || text.is_empty() {
            return text.to_owned();
        }
        format!("\x1b[{sgr}m{text}\x1b[0m")
    }
}

fn columns([step, accepted, draft, verify]: [&str; 4]) -> String {
    format!("{step:>4}  {accepted:>8}  {draft:>7}  {verify:>7}  ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use specreel_record::{
        EventKind, Verdict,
        testing::{run, step},
    };

    fn log() -> RunLog {
        let tokens = [("A", Verdict::Exact), (" red", Verdict::Loosened), (" ring", Verdict::Corrected)];
        let EventKind::Step(mut first) = step(&tokens) else { panic!() };
        first.drafted = vec![1; 4];
        first.judged = 4;
        first.drafted_text = ["A", " red", " ball", " rolls"].map(Into::into).to_vec();
        run(7, [EventKind::Step(first), step(&[(".", Verdict::Plain)])])
    }

    #[test]
    fn a_row_a_step_and_each_once() {
        let mut steps = Steps::new(false, None);
        let log = log();
        assert_eq!(
            steps.lines(&log).lines().collect::<Vec<_>>(),
            [
                "step  accepted    draft   verify  draft → target",
                "   1       2/4    50 ms    50 ms  A red ~~ball rolls~~ → ring  (rejected after 2 of 4 drafts · loosened “red”)",
                "   2       0/1    50 ms    50 ms  ~~…~~ → .  (first draft rejected)",
            ]
        );
        assert_eq!(steps.lines(&log), "");
        assert!(steps.lines(&run(8, [step(&[("B", Verdict::Exact)])])).starts_with("step  "), "a new run");
        // Withdrawn, and written again.
        assert_eq!(steps.lines(&run(8, [])), "");
        assert!(steps.lines(&run(8, [step(&[("C", Verdict::Exact)])])).starts_with("step  "));
    }

    #[test]
    fn colors_are_those_of_verdicts() {
        let lines = Steps::new(true, None).lines(&log());
        assert!(
            lines.contains(
                "A\x1b[4;33m red\x1b[0m\x1b[2m \x1b[0m\x1b[9;31mball\x1b[0m\x1b[2;9m rolls\x1b[0m\x1b[2m → \x1b[0m\x1b[1;36mring"
            ),
            "{lines:?}"
        );
        assert!(!lines.contains("~~"), "{lines}");
    }

    #[test]
    fn rows_fit_a_terminal() {
        for columns in [36, 50, 60, 80, 120] {
            for color in [false, true] {
                let lines = Steps::new(color, Some(columns)).lines(&log());
                let lines = specreel_client::present::text::clean(&lines);
                for line in lines.lines().skip(1) {
                    assert!(width(line) <= columns, "{columns}: {line}");
                }
            }
        }
        let narrow = Steps::new(false, Some(60)).lines(&log());
        let words = narrow.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("→ ring (rejected after 2 of 4 drafts · loosened “red”) 2"), "{narrow}");
        let wide = Steps::new(false, Some(84)).lines(&log());
        let below = format!("\n{:34}(rejected after 2 of 4 drafts · loosened “red”)\n", "");
        assert!(wide.contains(&below), "{wide}");
    }
}
