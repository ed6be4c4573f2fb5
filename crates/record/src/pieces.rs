//! Runs that belong together: the pieces of one video, or a single run.

use super::{RunLog, RunState, Segment, Stats, StopReason};

/// The runs on the pieces of one video, in order. A single run is a video of one piece.
#[derive(Clone, Debug, Default)]
pub struct Pieces<'a> {
    logs: Vec<&'a RunLog>,
}

impl<'a> Pieces<'a> {
    /// These runs, taken together.
    pub fn of(logs: impl IntoIterator<Item = &'a RunLog>) -> Self {
        Self { logs: logs.into_iter().collect() }
    }

    pub fn logs(&self) -> &[&'a RunLog] {
        &self.logs
    }

    /// The run that says what all of them are about; `None` without runs.
    pub fn first(&self) -> Option<&'a RunLog> {
        self.logs.first().copied()
    }

    /// Statistics of all runs. Those of several have no speedup: each run has its own baseline.
    pub fn stats(&self) -> Stats {
        match self.logs[..] {
            [log] => log.stats().clone(),
            _ => self.logs.iter().fold(Stats::default(), |mut sum, log| {
                sum.add_run(log.stats());
                sum
            }),
        }
    }

    /// The notes of all runs, each once.
    pub fn notes(&self) -> Vec<&'a str> {
        let mut notes: Vec<&str> = Vec::new();
        for note in self.logs.iter().flat_map(|log| log.notes()) {
            if !notes.contains(&note.as_str()) {
                notes.push(note);
            }
        }
        notes
    }

    /// Finished pieces and all pieces of the video, of a stream those that have begun; `None` for a run that is not about a piece.
    pub fn progress(&self) -> Option<(usize, usize)> {
        let segment = self.logs.iter().find_map(|log| segment(log))?;
        let count = if segment.count == 0 { self.logs.len() } else { segment.count };
        Some((self.logs.iter().filter(|log| log.is_finished()).count(), count))
    }

    /// Why they ended, if the last one is done: `loop` or `length` if any of them stopped there, and the last one was not stopped otherwise.
    pub fn reason(&self) -> Option<StopReason> {
        let RunState::Done(last) = *self.logs.last()?.state() else { return None };
        let any = |reason| self.logs.iter().any(|log| *log.state() == RunState::Done(reason));
        Some(match last {
            StopReason::Eos | StopReason::Length if any(StopReason::Loop) => StopReason::Loop,
            StopReason::Eos if any(StopReason::Length) => StopReason::Length,
            last => last,
        })
    }

    /// True if no further piece follows: the last one is over and is the video's last, or did not finish.
    pub fn is_over(&self) -> bool {
        self.logs.last().is_some_and(|log| {
            let more = segment(log).is_some_and(|segment| segment.continues());
            log.is_over() && !(more && log.is_finished())
        })
    }
}

fn segment(log: &RunLog) -> Option<Segment> {
    log.started()?.segment
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{done, ready, run, started_piece, step};
    use crate::{EventKind, Verdict};

    fn piece(index: usize, reason: StopReason) -> RunLog {
        let tokens = [(" A", Verdict::Exact), (" b", Verdict::Bonus)];
        run(index as u64 + 1, [started_piece(index, 3), ready(&["n"]), step(&tokens), done_as(reason)])
    }

    fn done_as(reason: StopReason) -> EventKind {
        let EventKind::Done { text, ids, .. } = done(" A b") else { panic!() };
        let mut stats = Stats::default();
        let EventKind::Step(step) = step(&[(" A", Verdict::Exact), (" b", Verdict::Bonus)]) else { panic!() };
        stats.add(&step);
        EventKind::Done { reason, text, ids, stats: Box::new(stats) }
    }

    #[test]
    fn several_pieces_count_as_one() {
        let logs = [piece(0, StopReason::Eos), piece(1, StopReason::Length), piece(2, StopReason::Eos)];
        let all = Pieces::of(&logs);
        assert_eq!((all.stats().emitted, all.stats().steps), (6, 3));
        assert_eq!((all.progress(), all.reason()), (Some((3, 3)), Some(StopReason::Length)));
        assert_eq!((all.notes(), all.is_over()), (vec!["n"], true));
        let two = Pieces::of(&logs[..2]);
        assert_eq!((two.progress(), two.is_over()), (Some((2, 3)), false));
    }

    #[test]
    fn a_cancelled_piece_ends_them_all_and_does_not_count() {
        let logs = [piece(0, StopReason::Eos), piece(1, StopReason::Cancelled)];
        let all = Pieces::of(&logs);
        assert_eq!((all.progress(), all.reason()), (Some((1, 3)), Some(StopReason::Cancelled)));
        assert!(all.is_over());
    }

    #[test]
    fn a_single_run_is_itself() {
        let mut log = run(1, [step(&[("A", Verdict::Plain)]), done("A")]);
        log.stats_mut().tau = 7.0;
        let one = Pieces::of([&log]);
        assert_eq!((one.stats().tau, one.progress(), one.is_over()), (7.0, None, true));
        assert!(Pieces::default().first().is_none() && !Pieces::default().is_over());
    }
}
