//! The statistics of a run, once it has ended and its speed is measured.

use super::{NAMES, PrintError, Printer};
use crate::cli::output::color;
use specreel_client::present::statistics::{
    NOT_MEASURED, ending, loosened, statistics, verdicts, verification,
};
use specreel_client::present::{verdicts::Role, wrap::hang};
use specreel_record::{Pieces, RunLog, RunState, Stats, StopReason, Verdict, Verification};
use std::io::Write;

impl<O: Write, E: Write> Printer<O, E> {
    /// Print the statistics of the run that has ended, unless that is done.
    pub fn report(&mut self) -> Result<(), PrintError> {
        let Some(reason) = self.due.take() else { return Ok(()) };
        self.close()?;
        if !Pieces::of(&self.runs).is_over() {
            return Ok(());
        }
        self.figures(reason)
    }

    /// End the output of a stream's pieces, which end for this reason, with their statistics.
    pub fn end_stream(&mut self, reason: StopReason) -> Result<(), PrintError> {
        self.end()?;
        if self.run().run() == 0 {
            return Ok(());
        }
        self.figures(reason)
    }

    fn figures(&mut self, reason: StopReason) -> Result<(), PrintError> {
        let runs = Pieces::of(&self.runs);
        let mut stats = runs.stats();
        let (dropped, before) = &self.dropped;
        if *dropped > 0 {
            stats.add_run(before);
        }
        if stats.emitted == 0 && reason == StopReason::Cancelled {
            self.say("interrupted\n")?;
            return Ok(());
        }
        let mut text = String::new();
        if self.style.terminal && !self.style.json && !self.run().chunks().is_empty() {
            // On a screen, an empty line separates the caption from its statistics.
            text.push('\n');
        }
        let columns = self.style.columns_talk;
        let mut row =
            |name: &str, value: &str| text += &hang(&format!("{name:<NAMES$}{value}\n"), columns, NAMES);
        if let Some((done, count)) = runs.progress() {
            row("segments", &format!("{} of {}", done + dropped, count + dropped));
        }
        let legend = self.legend(&stats);
        if !legend.is_empty() {
            row("verdicts", &legend);
        }
        let is_whole = runs.logs().len() == 1;
        for (name, value) in statistics(&stats) {
            match (value.as_str(), self.measures) {
                // The pieces of a video have a speedup each.
                (NOT_MEASURED, _) if !is_whole => {}
                (NOT_MEASURED, false) => {
                    row(name, &format!("{NOT_MEASURED}; measure it with --measure always"))
                }
                (NOT_MEASURED, true) => {
                    row(name, &format!("{NOT_MEASURED}: too few repetitions in the time there was"))
                }
                _ => row(name, &value),
            }
        }
        if let Some(ending) = runs.reason().and_then(|reason| ending(reason, &stats, self.limit)) {
            text += &(ending + "\n");
        }
        let thinks = |run: &&RunLog| run.chunks().is_empty() && !run.thinking().is_empty();
        if reason == StopReason::Length && runs.logs().iter().any(thinks) {
            text += "note: the target was still thinking; raise --max-new-tokens\n";
        }
        let empty = runs.logs().iter().filter(|run| run.is_finished() && run.text().trim().is_empty());
        // One that ran into the limit has written tokens, but none that are text.
        let (looped, silent): (Vec<&RunLog>, Vec<&RunLog>) = empty
            .filter(|run| !thinks(run))
            .partition(|run| *run.state() == RunState::Done(StopReason::Length));
        let all = runs.logs().len();
        for (empty, what, hint) in [
            (silent, "nothing", "change --prompt, or give it more --frames"),
            (looped, "only special tokens and white space", "change --prompt, or use a model tuned for chat"),
        ] {
            let about =
                if all > 1 { format!(" about {} of {all} segments", empty.len()) } else { String::new() };
            if !empty.is_empty() {
                text += &format!("note: the model wrote {what}{about}; {hint}\n");
            }
        }
        self.say(&text)?;
        Ok(())
    }

    /// Print the result of a verification: a broken promise even if only errors are printed.
    pub(super) fn verified(&mut self, found: &Verification) -> Result<(), PrintError> {
        self.progress.clear();
        let words = verification(found);
        let words = match self.segment() {
            Some(piece) => format!("segment {piece}: {words}"),
            None => words,
        };
        let name = if found.is_broken() { "error:" } else { "verified" };
        let row = hang(&format!("{name:<NAMES$}{words}\n"), self.style.columns_talk, NAMES);
        match found.is_broken() {
            true => self.tell(&color::plain(&row)),
            false => self.say(&color::plain(&row))?,
        }
        Ok(())
    }

    fn legend(&self, stats: &Stats) -> String {
        let legend = verdicts(stats, |verdict: Verdict, count| {
            if self.style.color_talk {
                format!("{} {count}", color::paint(verdict, verdict.name()))
            } else if self.style.color {
                format!("{verdict} {count} ({})", Role::of(verdict).look().words)
            } else {
                format!("{verdict} {count}")
            }
        });
        match loosened(self.run().is_lossless(), stats) {
            lossy if !lossy.is_empty() && !legend.is_empty() => format!("{legend} (lossy: {lossy})"),
            _ => legend,
        }
    }
}
