//! Counts of the parallel schedule.

use super::tick::Outcome;
use specreel_record::Verdict;

/// Counts over the ticks of one generation.
///
/// PEARL's and ParallelVLM's tables give the accepted drafts between two rejects ([`mean_run`](Self::mean_run)), across as many
/// windows as they span. It is not comparable with [`tau`](Self::tau), which counts per verify pass as all other methods do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Ticks, each with one verify pass.
    pub ticks: u64,
    pub drafted: u64,
    /// Drafts that a verify pass judged.
    pub judged: u64,
    /// Accepted drafts in the output, without those that a grammar forces.
    pub accepted: u64,
    /// Discarded drafts: rejected ones, and those after a rejected one or after the end.
    pub discarded: u64,
    /// Ticks that rejected a draft. Each ends a run.
    pub rejects: u64,
    /// Accepted drafts since the last reject.
    pub run: u64,
    pub(crate) longest_run: u64,
}

impl Tally {
    pub(super) fn add(&mut self, outcome: &Outcome, rejected: bool) {
        self.ticks += 1;
        self.drafted += outcome.drafted.len() as u64;
        self.judged += outcome.judged.len() as u64;
        // What a grammar forces is certain, and says nothing of the drafter.
        let forced = outcome.tokens.iter().filter(|token| token.verdict == Verdict::Forced).count();
        let accepted = (outcome.accepted - forced) as u64;
        self.accepted += accepted;
        self.discarded += outcome.discarded as u64;
        self.run += accepted;
        self.longest_run = self.longest_run.max(self.run);
        if rejected {
            self.rejects += 1;
            self.run = 0;
        }
    }

    /// Accepted drafts per verify pass.
    pub fn tau(&self) -> f64 {
        self.accepted as f64 / self.ticks.max(1) as f64
    }

    /// Accepted drafts between two rejects, averaged over the runs that a reject ended, as PEARL's code does; `None` where
    /// nothing was rejected.
    pub fn mean_run(&self) -> Option<f64> {
        (self.rejects > 0).then(|| (self.accepted - self.run) as f64 / self.rejects as f64)
    }
}
