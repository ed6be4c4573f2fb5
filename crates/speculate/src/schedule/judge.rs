//! Acceptance in the parallel schedule. The machine knows when a draft is judged; a [`Judge`] knows how.
//!
//! The machine requests the accepted prefix first, and the target's own token only if it emits one. So a judge may return the
//! target's token (greedy) or draw it from the residual (sampled), and never draws a bonus that the schedule does not use.

use crate::sampling::Sampler;
use specreel_record::Verdict;

#[derive(Clone, Debug, PartialEq)]
pub struct DraftToken<E = ()> {
    pub id: u32,
    /// The judge's information about the drafter here, for example its distribution. The machine only passes it on.
    pub(crate) evidence: E,
}

impl From<u32> for DraftToken {
    fn from(id: u32) -> Self {
        DraftToken { id, evidence: () }
    }
}

/// The drafts judged in one tick: draft i by row i of the verify pass, as output position `position + i`.
#[derive(Debug)]
pub struct Case<'a, E> {
    /// Output position of the first draft; 0 is the first token after the prompt.
    pub position: usize,
    /// The drafts, in order; empty if the drafter proposed nothing.
    pub drafts: &'a [DraftToken<E>],
    /// Rows of the verify pass: as many as drafts, or one more if the drafter proposed nothing after them.
    pub rows: usize,
}

/// Judges drafts by the rows of the target's last verify pass.
///
/// The schedule asks about each output position once. A draft that was discarded unjudged may be followed by another one for
/// the same position. With random numbers that depend on seed and position alone (`Sampler::rng`), and not on the tick, the
/// output does not depend on the windows, and its distribution is the target's.
pub trait Judge<E> {
    /// The verdicts of the longest accepted prefix.
    fn accept(&mut self, case: &Case<'_, E>) -> Vec<Verdict>;

    /// The target's token in row `row`. Where the case has a draft of that number, it was just rejected, and a sampled token
    /// has to come from norm(max(p - q, 0)); where it has none, from p.
    fn replacement(&mut self, case: &Case<'_, E>, row: usize) -> u32;
}

/// Accepts only the target's own tokens.
#[derive(Clone, Debug)]
pub struct Exact<'a> {
    /// The target's token of each row.
    pub wanted: &'a [u32],
}

impl<E> Judge<E> for Exact<'_> {
    fn accept(&mut self, case: &Case<'_, E>) -> Vec<Verdict> {
        let same = case.drafts.iter().zip(self.wanted).take_while(|(draft, wanted)| draft.id == **wanted);
        same.map(|_| Verdict::Exact).collect()
    }

    fn replacement(&mut self, _: &Case<'_, E>, row: usize) -> u32 {
        self.wanted[row]
    }
}

/// Accepts with min(1, p/q) and replaces from the residual: the output has the target's distribution (ParallelVLM, 2.2).
/// The evidence of a draft is the drafter's distribution that it was drawn from.
#[derive(Clone, Debug)]
pub struct Sampled<'a> {
    /// The target's distribution in each row.
    pub rows: &'a [Vec<f32>],
    /// Gives the randomness of each position.
    pub sampler: Sampler,
}

impl<E: AsRef<[f32]>> Judge<E> for Sampled<'_> {
    fn accept(&mut self, case: &Case<'_, E>) -> Vec<Verdict> {
        let passes = |(i, draft): (usize, &DraftToken<E>)| {
            self.sampler.accepts(draft.id, &self.rows[i], draft.evidence.as_ref(), case.position + i)
        };
        let prefix = case.drafts.iter().enumerate().map(passes).take_while(|passed| *passed);
        prefix.map(|_| Verdict::Sampled).collect()
    }

    fn replacement(&mut self, case: &Case<'_, E>, row: usize) -> u32 {
        let (p, position) = (&self.rows[row], case.position + row);
        match case.drafts.get(row) {
            Some(draft) => self.sampler.replacement(p, draft.evidence.as_ref(), position),
            None => self.sampler.draw(p, position),
        }
    }
}
