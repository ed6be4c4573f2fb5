//! A log as it was earlier, for a playback.

use super::{RunLog, RunState};

impl RunLog {
    /// The log as it was after so many of its steps: running, with nothing of what came later.
    #[must_use]
    pub fn rewound(&self, steps: usize) -> Self {
        let mut log = Self {
            run: self.run,
            planned: self.planned.clone(),
            started: self.started.clone(),
            state: if self.started.is_some() { RunState::Running } else { RunState::Waiting },
            stage: self.stage,
            left_ms: self.left_ms,
            estimate: self.estimate.clone(),
            prompt: self.prompt.clone(),
            notes: self.notes.clone(),
            ..Self::default()
        };
        log.follow(self, steps);
        log
    }

    /// Take in the steps of a longer log of the same run, until this one has so many.
    pub fn follow(&mut self, whole: &Self, steps: usize) {
        let (from, to) = (self.steps.len(), steps.min(whole.steps.len()));
        for step in whole.steps.get(from..to).unwrap_or_default() {
            self.step(step);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        EventKind, RunState, Verdict,
        testing::{done, fed, prompt, run, started, step},
    };

    fn events() -> Vec<EventKind> {
        vec![
            started(),
            prompt(None),
            step(&[(" A", Verdict::Exact), ("", Verdict::Corrected)]),
            step(&[("é", Verdict::Exact), (" ball", Verdict::Bonus)]),
            done(" Aé ball."),
        ]
    }

    #[test]
    fn a_rewound_log_is_the_log_of_the_events_until_then() {
        let whole = run(1, events());
        for (steps, n) in [(0, 2), (1, 3), (2, 4), (9, 4)] {
            assert_eq!(whole.rewound(steps), run(1, events().into_iter().take(n)), "{steps} steps");
        }
        assert_eq!(*whole.rewound(2).state(), RunState::Running);
    }

    #[test]
    fn a_log_that_follows_another_is_as_if_it_had_taken_the_events() {
        let whole = run(1, events());
        let mut log = whole.rewound(0);
        log.follow(&whole, 1);
        assert_eq!(log, whole.rewound(1));
        log.follow(&whole, 2);
        assert_eq!(fed(log, [done(" Aé ball.")]), whole);
    }
}
