//! The drafters of a generation: one of them drafts, and another may take over at any step.
//!
//! All of them learn what was emitted. A drafter that has not read the prompt yet does so when it takes over; until then the emitted
//! tokens are kept for it, and the target's states at them if it is a draft head.

use specreel_tensor::Result;

use super::{
    auto::{CLASSES, Contender, Place},
    confidence::class,
    draft::{
        AssistantDrafter, BlockDrafter, DraftHeadState, Foreseen, Lookup, ModelDrafter, Proposal, Proposer,
    },
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

    /// True if it needs the target's states at the emitted tokens.
    fn reads_states(&self) -> bool {
        matches!(self.contender.drafter, Drafter::Head { .. })
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
    /// How unsure the target was at these places, all together: 1 less the probability that it gave its own token.
    pub unsure: f64,
    /// By the class of the probability that it gave them: tokens that it would draft, those that were judged, and those that passed.
    pub by_confidence: [[usize; 3]; CLASSES],
    /// Steps in which it was to draft, and those in which it had a draft.
    pub asked: usize,
    pub offered: usize,
}

impl Drafted {
    fn add(&mut self, places: &[Place], unsure: Option<f32>) {
        self.judged += places.len();
        unsure.into_iter().for_each(|probability| self.by_confidence[class(probability)][0] += 1);
        for place in places {
            if let Some(probability) = place.probability {
                let [seen, judged, passed] = &mut self.by_confidence[class(probability)];
                *seen += 1;
                *judged += 1;
                *passed += usize::from(place.passed);
            }
            self.passed += usize::from(place.passed);
            self.unsure += 1.0 - f64::from(place.sure);
        }
    }
}

/// What was emitted while a drafter has not read it.
#[derive(Default)]
struct Emitted {
    ids: Vec<u32>,
    /// The target's final states at the token before each of them, step by step; empty if no draft head waits.
    states: Vec<States>,
}

impl Emitted {
    /// Pass the emitted tokens to a drafter that has read the prompt.
    fn replay(&self, proposer: &mut dyn Proposer, target: &Sequence, reads_states: bool) -> Result<()> {
        let Some((root, accepted)) = self.ids.split_last() else { return Ok(()) };
        let tree = Tree::chain(accepted.iter().copied());
        let path: Vec<usize> = (0..accepted.len()).collect();
        let states = if reads_states {
            States::cat(&self.states)?
        } else {
            States::new(Vec::new(), target.decoder().width())?
        };
        proposer.commit(&Proposal { tree, ..Proposal::default() }, &path, *root, target, 0, &states)
    }
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
    /// What prompt lookup searches: earlier texts, and the prompt.
    before: [&'a [u32]; 2],
    /// What was emitted so far, while a drafter waits.
    emitted: Emitted,
}

impl<'a> DrafterSet<'a> {
    /// The drafter of a method, if it has one, and those that may take over.
    pub fn new(
        (drafter, context): (&Drafter, &VisualContext),
        inputs: DrafterInputs<'a>,
        before: [&'a [u32]; 2],
        reserves: Vec<Reserve<'a>>,
    ) -> Self {
        let taps = inputs.head.as_ref().is_some_and(|head| !head.layer().taps().is_empty());
        let member = |state, taps| Member { state, taps, done: Drafted::default() };
        let first = proposer(drafter, context, inputs, before);
        let mut members: Vec<_> =
            first.into_iter().map(|first| member(Readiness::Ready(first), taps)).collect();
        if !members.is_empty() {
            // What reads nothing is ready at once.
            members.extend(reserves.into_iter().map(|reserve| {
                let Contender { drafter, context, .. } = reserve.contender;
                let ready =
                    (!drafter.reads()).then(|| proposer(drafter, context, DrafterInputs::default(), before));
                member(ready.flatten().map_or(Readiness::Waiting(reserve), Readiness::Ready), false)
            }));
        }
        Self { members, active: 0, before, emitted: Emitted::default() }
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
        let reads_states = reserve.reads_states();
        let Contender { drafter, context, .. } = reserve.contender;
        let Some(mut inputs) = (reserve.read)()? else { return Ok(false) };
        if let Some(sequence) = &mut inputs.sequence {
            sequence.mark();
        }
        if let Some(mut proposer) = proposer(drafter, context, inputs, self.before) {
            self.emitted.replay(&mut *proposer, target, reads_states)?;
            member.state = Readiness::Ready(proposer);
        }
        if !self.waits(|_| true) {
            self.emitted = Emitted::default();
        } else if !self.waits(Reserve::reads_states) {
            self.emitted.states = Vec::new();
        }
        Ok(true)
    }

    /// True if a drafter waits of which this is true.
    fn waits(&self, of: impl Fn(&Reserve<'a>) -> bool) -> bool {
        self.members.iter().any(|member| matches!(&member.state, Readiness::Waiting(reserve) if of(reserve)))
    }

    /// The drafter of this number; `None` if there is none, or it has not read the prompt.
    pub fn proposer(&mut self, number: usize) -> Option<&mut (dyn Proposer + 'a)> {
        match &mut self.members.get_mut(number)?.state {
            Readiness::Ready(proposer) => Some(&mut **proposer),
            _ => None,
        }
    }

    /// Count what a drafter that was asked proposed, and the places of it that were judged.
    pub fn count(&mut self, by: usize, proposal: &Proposal, places: &[Place]) {
        let Some(Member { done, .. }) = self.members.get_mut(by) else { return };
        done.row_ms.extend(&proposal.pass_ms);
        done.asked += 1;
        done.offered += usize::from(!places.is_empty() || proposal.unsure.is_some());
        done.add(places, proposal.unsure);
    }

    /// What a drafter would have drafted for the tokens of the last step ([`Proposer::foreseen`]), which is counted.
    pub fn foresee(&mut self, by: usize) -> &[Foreseen] {
        let Some(Member { state: Readiness::Ready(proposer), done, .. }) = self.members.get_mut(by) else {
            return &[];
        };
        let foreseen = proposer.foreseen();
        done.asked += 1;
        done.offered += usize::from(foreseen.first().is_some_and(Option::is_some));
        for (probability, passed) in foreseen.iter().copied().flatten() {
            done.add(&[Place { passed, probability: Some(probability), sure: 1.0 }], None);
        }
        foreseen
    }

    /// Report the outcome of a step to all drafters, as in [`Proposer::commit`]; `pass` verified the proposal.
    pub fn commit(
        &mut self,
        proposal: &Proposal,
        path: &[usize],
        root: u32,
        (target, base): (&Sequence, usize),
        pass: &Pass,
    ) -> Result<()> {
        let all = match self.members.iter().any(|member| member.taps) {
            true => Some(tapped(pass, target.decoder())?),
            false => None,
        };
        for member in &mut self.members {
            let states = all.as_ref().filter(|_| member.taps).unwrap_or(&pass.states);
            if let Readiness::Ready(proposer) = &mut member.state {
                proposer.commit(proposal, path, root, target, base, states)?;
            }
        }
        if self.waits(|_| true) {
            let nodes = proposal.tree.nodes();
            self.emitted.ids.extend(path.iter().map(|&node| nodes[node].id).chain([root]));
        }
        if self.waits(Reserve::reads_states) {
            let rows: Vec<usize> = std::iter::once(0).chain(path.iter().map(|node| node + 1)).collect();
            self.emitted.states.push(pass.states.select(&rows)?);
        }
        Ok(())
    }
}

/// What drafts for a method, if anything does.
fn proposer<'a>(
    drafter: &Drafter,
    context: &VisualContext,
    inputs: DrafterInputs<'a>,
    [earlier, prompt]: [&[u32]; 2],
) -> Option<Box<dyn Proposer + 'a>> {
    if let Drafter::Lookup { ngram, min_ngram, occurrence } = *drafter {
        let all = [earlier, prompt].concat();
        return Some(Box::new(Lookup::new(&all, min_ngram.min(ngram)..=ngram, occurrence)));
    }
    let dense = matches!(context, VisualContext::TopKKv { rows: AcceptedRows::Dense, .. });
    let root = prompt.last().copied().unwrap_or_default();
    let DrafterInputs { sequence, head } = inputs;
    let sequence = sequence?;
    Some(match head {
        Some(head) if head.layer().assists() => Box::new(AssistantDrafter::new(sequence, root, head)),
        Some(head) if head.layer().block().is_some() => {
            Box::new(BlockDrafter::new(sequence, root, head.layer())?)
        }
        head => Box::new(ModelDrafter::new(sequence, root, dense).with_head(head)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Occurrence, auto::DraftCost};
    use specreel_model::{decoder::Taps, draft_head::Recipe, family::VideoLlm};
    use specreel_tensor::WeightType;

    fn contender(drafter: Drafter) -> Contender {
        let cost = DraftCost::usual([0.0, 1.0], 0.5);
        let context = VisualContext::of_share(0.0);
        Contender { drafter, context, cost, text_tokens: 8, further: 0.25 }
    }

    #[test]
    fn states_are_kept_for_draft_heads_alone_and_until_they_have_read_them() {
        let fixtures =
            std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/parity/fixtures"));
        let load = |name| VideoLlm::load(&fixtures.join(name), WeightType::F32, &mut |_, _| {}).unwrap();
        let (model, small) = (load("gqa_tied"), load("mha_tied_bf16"));
        let lookup = || Drafter::Lookup { ngram: 2, min_ngram: 1, occurrence: Occurrence::Latest };
        let prompt = [9, 31, 44, 17];
        let (model_waits, lookup_waits) = (contender(Drafter::Model {}), contender(lookup()));
        let head_waits = contender(Drafter::Head { recipe: Recipe::Msd });
        for (others, head) in [
            (vec![&model_waits, &lookup_waits], None),
            (vec![&model_waits, &head_waits, &lookup_waits], Some(2)),
        ] {
            let mut target = Sequence::new(model.decoder().clone(), 32);
            target.feed(&prompt[..3], &Taps::default()).unwrap();
            let mut sequences: Vec<_> =
                others.iter().map(|_| Sequence::new(small.decoder().clone(), 32)).collect();
            for sequence in &mut sequences {
                sequence.feed(&prompt[..3], &Taps::default()).unwrap();
            }
            let reserves = others.iter().zip(&mut sequences).map(|(of, sequence)| {
                let reads = of.drafter.reads();
                Reserve::new(of, move || {
                    Ok(Some(DrafterInputs { sequence: reads.then_some(sequence), head: None }))
                })
            });
            let context = VisualContext::of_share(0.0);
            let inputs = DrafterInputs::default();
            let mut set = DrafterSet::new((&lookup(), &context), inputs, [&[], &prompt], reserves.collect());
            let kept = |set: &DrafterSet<'_>| {
                (set.emitted.ids.len(), set.emitted.states.iter().map(States::rows).sum::<usize>())
            };
            let mut step = |set: &mut DrafterSet<'_>, drafts: &[u32], accepted: usize, root| {
                let base = target.len();
                let rows: Vec<u32> = std::iter::once(17).chain(drafts.iter().copied()).collect();
                let pass = target.feed(&rows, &Taps::default()).unwrap();
                target.truncate(base + 1 + accepted);
                let tree = Tree::chain(drafts.iter().copied());
                let proposal = Proposal { tree, ..Proposal::default() };
                let path: Vec<usize> = (0..accepted).collect();
                set.commit(&proposal, &path, root, (&target, base), &pass).unwrap();
            };
            step(&mut set, &[5, 6, 7], 2, 8);
            step(&mut set, &[], 0, 17);
            assert_eq!(kept(&set), (4, if head.is_some() { 4 } else { 0 }));
            let target = Sequence::new(model.decoder().clone(), 1);
            // Who has taken over, read all of it, and drafts after it.
            assert!(set.take_over(1, &target).unwrap());
            assert!(set.proposer(1).is_some());
            if let Some(head) = head {
                assert_eq!(kept(&set), (4, 4));
                assert!(set.take_over(head, &target).unwrap());
            }
            assert_eq!(kept(&set), (0, 0), "lookup has read all from the beginning");
        }
    }

    #[test]
    fn places_are_counted() {
        let mut all = Drafted::default();
        let place = |passed| Place { passed, probability: None, sure: 0.75 };
        all.add(&[place(true), place(true), place(false)], None);
        all.add(&[place(false)], None);
        assert_eq!((all.passed, all.judged, all.unsure), (2, 4, 1.0));
    }
}
