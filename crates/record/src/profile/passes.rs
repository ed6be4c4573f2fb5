//! What passes of few and of many rows take here and under a profile: why drafts pay there and not here, or here and not there.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Profile;
use crate::{RunLog, median};

/// Fewer passes of so many rows say nothing.
const LEAST: usize = 3;

/// Times of passes of one row and of many rows, in milliseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Passes {
    /// How many rows are many.
    pub rows: usize,
    /// Medians of the passes that ran here.
    pub here_ms: [f64; 2],
    /// Under the profile.
    pub there_ms: [f64; 2],
}

impl Profile {
    /// The passes of one row and the passes of most rows in these runs, here and under this profile. `None` if there are too few of
    /// either. Passes that ran while a drafter worked say little, as do a pruned target's.
    pub fn passes<'a>(&self, runs: impl Iterator<Item = &'a RunLog>) -> Option<Passes> {
        let mut here: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
        let mut prompt = None;
        for run in runs {
            let (Some(started), Some(seen)) = (run.started(), run.prompt()) else { continue };
            if started.drafter.is_none() && seen.kept.is_some() {
                continue;
            }
            prompt = Some(seen);
            for step in run.steps().iter().filter(|step| step.busy.is_none()) {
                here.entry(step.drafted.len() + 1).or_default().push(step.verify_ms);
            }
        }
        here.retain(|_, passes| passes.len() >= LEAST);
        let rows = here.keys().next_back().copied().filter(|rows| *rows > 1)?;
        let middle = |rows: usize| median(here.get(&rows)?.iter().copied());
        let seen = prompt?;
        let text = self.text.unwrap_or(seen.prompt_ids.len().saturating_sub(seen.visual_tokens));
        let slots = (text + self.visual.unwrap_or(seen.visual_tokens)) as f64;
        let there_ms = [1, rows].map(|rows| self.target.ms(rows as f64, slots, 1.0));
        Some(Passes { rows, here_ms: [middle(1)?, middle(rows)?], there_ms })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        EventKind, Step,
        testing::{prompt, run, started, started_plain},
    };

    fn steps(first: EventKind, kept: Option<Vec<u32>>, passes: &[(usize, f64)]) -> RunLog {
        let step = |(drafts, verify_ms): &(usize, f64)| {
            EventKind::Step(Step { drafted: vec![1; *drafts], verify_ms: *verify_ms, ..Step::default() })
        };
        run(1, [first, prompt(kept)].into_iter().chain(passes.iter().map(step)))
    }

    #[test]
    fn the_widest_passes_that_are_frequent_are_compared_with_single_rows() {
        let text = "[target]\npasses = [[0, 1, 10], [0, 11, 20], [10, 1, 20], [10, 11, 30]]\n";
        let profile = Profile::parse("p", text, &|_| None).unwrap();
        let plain = steps(started_plain(), None, &[(0, 2.0), (0, 1.0), (0, 9.0)]);
        let tree = steps(started(), None, &[(10, 6.0), (10, 4.0), (10, 5.0), (4, 3.0), (25, 99.0)]);
        // The prompt of 4 visual tokens has no others.
        let found = Passes { rows: 11, here_ms: [2.0, 5.0], there_ms: [14.0, 24.0] };
        assert_eq!(profile.passes([&plain, &tree].into_iter()), Some(found));
        for runs in [vec![&plain], vec![&tree], vec![]] {
            assert_eq!(profile.passes(runs.into_iter()), None);
        }
        // A pruned target's passes are no passes of one row over the whole prompt.
        let pruned = steps(started_plain(), Some(vec![1]), &[(0, 1.0); 5]);
        assert_eq!(profile.passes([&pruned, &tree].into_iter()), None);
    }
}
