//! The drafters of a generation: one of them drafts, and another may take over at any step.
//!
//! All of them learn what was emitted. A drafter that has not read the prompt yet does so when it takes over; until then the emitted
//! tokens and the target's states at them are kept for it.

use specreel_tensor::Result;

use super::{
    auto::{Contender, Place, RANKS},
    draft::{BlockDrafter, DraftHeadState, Lookup, ModelDrafter, Proposal, Proposer},
    method::{AcceptedRows, Drafter, VisualContext},
    tree::Tree,
};
use specreel_model::{
    decoder::{Pass, Sequence, States},
    draft_head::tapped,
};

/// What a drafter drafts with.
#[derive(Default)]
pub struct DrafterInputs<'a> {
    /// Its sequence, if it is a decoder: the prompt without its last token.
    pub sequence: Option<&'a mut Sequence>,
    /// The target's states for it, if it is a draft head.
    pub head: Option<DraftHeadState<'a>>,
}

/// A drafter that may take over. If it is a draft head, it reads the target's final states.
pub struct Reserve<'a> {
    pub(crate) contender: &'a Contender,
    read: Box<dyn FnOnce() -> Result<Option<DrafterInputs<'a>>> + 'a>,
}

impl<'a> Reserve<'a> {
    /// `read` lets it read the prompt when it takes over; it returns `None` if the generation is to stop.
    pub fn new(
        contender: &'a Contender,
        read: impl FnOnce() -> Result<Option<DrafterInputs<'a>>> + 'a,
    ) -> Self {
        Self { contender, read: Box::new(read) }
    }
}

/// What one drafter of a generation did.
#[derive(Clone, Debug, Default)]
pub struct Drafted {
    /// Times of single rows, in milliseconds.
    pub row_ms: Vec<f64>,
    /// Places of the text for which drafts were judged, one after the other until none passed, and in how many the first choice
    /// passed; those that a grammar forced not counted.
    pub judged: usize,
    pub passed: usize,
    /// Where its first choice failed, how often the next one was known, and how often it was the target's token; then the one after.
    pub later: [[usize; 2]; RANKS - 1],
}

impl Drafted {
    fn add(&mut self, places: &[Place]) {
        self.judged += places.len();
        for place in places {
            self.passed += usize::from(place.found == Some(0));
            let first_failed = place.found != Some(0);
            for (at, [known, found]) in self.later.iter_mut().enumerate().filter(|_| first_failed) {
                let rank = at + 1;
                *known += usize::from(rank < place.known && place.found.is_none_or(|found| found >= rank));
                *found += usize::from(place.found == Some(rank));
            }
        }
    }
}

/// Tokens that a step emitted.
struct Emitted {
    accepted: Vec<u32>,
    root: u32,
    /// The target's final states at the step's root and the accepted drafts.
    states: States,
}

struct Member<'a> {
    state: Readiness<'a>,
    /// It reads the states that the target's passes tap.
    taps: bool,
    done: Drafted,
}

enum Readiness<'a> {
    Ready(Box<dyn Proposer + 'a>),
    Waiting(Reserve<'a>),
    /// It could not be prepared.
    Gone,
}

pub(crate) struct DrafterSet<'a> {
    members: Vec<Member<'a>>,
    active: usize,
    prompt: &'a [u32],
    /// What was emitted so far, while a drafter has not read it.
    emitted: Vec<Emitted>,
}

impl<'a> DrafterSet<'a> {
    /// The drafter of a method, if it has one, and those that may take over.
    pub fn new(
        (drafter, context): (&Drafter, &VisualContext),
        inputs: DrafterInputs<'a>,
        prompt: &'a [u32],
        reserves: Vec<Reserve<'a>>,
    ) -> Self {
        let taps = inputs.head.as_ref().is_some_and(|head| !head.layer().taps().is_empty());
        let member = |state, taps| Member { state, taps, done: Drafted::default() };
        let first = proposer(drafter, context, inputs, prompt);
        let mut members: Vec<_> =
            first.into_iter().map(|first| member(Readiness::Ready(first), taps)).collect();
        if !members.is_empty() {
            members.extend(reserves.into_iter().map(|reserve| member(Readiness::Waiting(reserve), false)));
        }
        Self { members, active: 0, prompt, emitted: Vec::new() }
    }

    /// True if nothing drafts.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    pub fn active(&self) -> usize {
        self.active
    }

    /// What each has done, the method's own first.
    pub fn into_done(self) -> Vec<Drafted> {
        self.members.into_iter().map(|member| member.done).collect()
    }

    /// Let another one draft from now on, after it has read what it has not. False if the generation is to stop.
    pub fn take_over(&mut self, to: usize, target: &Sequence) -> Result<bool> {
        let Some(member) = self.members.get_mut(to) else { return Ok(true) };
        self.active = to;
        let reserve = match std::mem::replace(&mut member.state, Readiness::Gone) {
            Readiness::Waiting(reserve) => reserve,
            other => {
                member.state = other;
                return Ok(true);
            }
        };
        let Contender { drafter, context, .. } = reserve.contender;
        let Some(mut inputs) = (reserve.read)()? else { return Ok(false) };
        if let Some(sequence) = &mut inputs.sequence {
            sequence.mark();
        }
        let Some(mut proposer) = proposer(drafter, context, inputs, self.prompt) else {
            return Ok(true);
        };
        for Emitted { accepted, root, states } in &self.emitted {
            let tree = Tree::chain(accepted.iter().copied());
            let path: Vec<usize> = (0..accepted.len()).collect();
            proposer.commit(&Proposal { tree, ..Proposal::default() }, &path, *root, target, 0, states)?;
        }
        member.state = Readiness::Ready(proposer);
        if !self.members.iter().any(|member| matches!(member.state, Readiness::Waiting(_))) {
            self.emitted.clear();
        }
        Ok(true)
    }

    /// The drafter that drafts; `None` if there is none.
    pub fn proposer(&mut self) -> Option<&mut (dyn Proposer + 'a)> {
        match &mut self.members.get_mut(self.active)?.state {
            Readiness::Ready(proposer) => Some(&mut **proposer),
            _ => None,
        }
    }

    /// Tell all of them the outcome of a step, as [`Proposer::commit`] has it, whose `pass` verified the proposal and judged these
    /// places.
    pub fn commit(
        &mut self,
        proposal: &Proposal,
        path: &[usize],
        root: u32,
        (target, base): (&Sequence, usize),
        pass: &Pass,
        places: &[Place],
    ) -> Result<()> {
        if let Some(member) = self.members.get_mut(self.active) {
            member.done.row_ms.extend(&proposal.pass_ms);
            member.done.add(places);
        }
        let all = match self.members.iter().any(|member| member.taps) {
            true => Some(tapped(pass, target.decoder())?),
            false => None,
        };
        let mut waits = false;
        for member in &mut self.members {
            let states = all.as_ref().filter(|_| member.taps).unwrap_or(&pass.states);
            match &mut member.state {
                Readiness::Ready(proposer) => proposer.commit(proposal, path, root, target, base, states)?,
                Readiness::Waiting(_) => waits = true,
                Readiness::Gone => {}
            }
        }
        if waits {
            let nodes = proposal.tree.nodes();
            let rows: Vec<usize> = std::iter::once(0).chain(path.iter().map(|node| node + 1)).collect();
            self.emitted.push(Emitted {
                accepted: path.iter().map(|&node| nodes[node].id).collect(),
                root,
                states: pass.states.select(&rows)?,
            });
        }
        Ok(())
    }
}

/// What drafts for a method, if anything does.
fn proposer<'a>(
    drafter: &Drafter,
    context: &VisualContext,
    inputs: DrafterInputs<'a>,
    prompt: &[u32],
) -> Option<Box<dyn Proposer + 'a>> {
    if let Drafter::Lookup { ngram, min_ngram, occurrence } = *drafter {
        return Some(Box::new(Lookup::new(prompt, min_ngram.min(ngram)..=ngram, occurrence)));
    }
    let dense = matches!(context, VisualContext::TopKKv { rows: AcceptedRows::Dense, .. });
    let root = prompt.last().copied().unwrap_or_default();
    let DrafterInputs { sequence, head } = inputs;
    let sequence = sequence?;
    let block = head.as_ref().map(DraftHeadState::layer).filter(|head| head.block().is_some());
    Some(match block {
        Some(head) => Box::new(BlockDrafter::new(sequence, root, head)?),
        None => Box::new(ModelDrafter::new(sequence, root, dense).with_head(head)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_by_the_choice_that_passed() {
        let mut all = Drafted::default();
        let place = |known, found| Place { known, found };
        all.add(&[place(1, Some(0)), place(3, Some(0)), place(3, Some(1))]);
        all.add(&[place(3, Some(2)), place(2, None), place(1, None)]);
        assert_eq!((all.passed, all.judged), (2, 6));
        assert_eq!(all.later, [[3, 1], [1, 1]]);
    }
}
