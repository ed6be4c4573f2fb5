//! What a drafter predicts after a branch of its proposal.

use std::sync::Arc;

use specreel_tensor::Result;

use super::{Branch, DraftRequest, Proposal};
use crate::{
    processors::whole,
    sampling::{Purpose, Sampler, draw},
};
use specreel_model::{
    decoder::{LogitNeeds, LogitRow, Logits},
    draft_head::DraftVocabulary,
    grammar::Allowed,
};

/// The drafter's predictions after one branch.
#[derive(Clone, Default)]
pub(super) struct Choices {
    /// Most likely ids with natural-log probabilities, best first; empty if the drafter has none that the grammar allows.
    pub best: Vec<(u32, f32)>,
    /// The drafter's largest probability, even if another token was drawn; 0 without a choice.
    pub confidence: f32,
    /// The distribution, if requested.
    pub distribution: Option<Arc<Vec<f32>>>,
}

impl Choices {
    /// Up to `count` choices after a branch of these drafts, after which the grammar allows `allowed`, from the row that predicts what
    /// follows. `own` are the ids of the row, if they are not the target's.
    pub fn of(
        row: LogitRow<'_>,
        allowed: &Allowed,
        drafts: &[u32],
        request: &DraftRequest<'_>,
        count: usize,
        own: Option<&DraftVocabulary>,
    ) -> Result<Self> {
        let id_of = |row: u32| own.map_or(row, |own| own.id(row));
        let Some(row) = allowed.restrict(row, id_of)? else { return Ok(Self::default()) };
        let (row, own) = match request.history {
            Some(history) => (history.process(&row, own, request.vocab, drafts)?, None),
            None => (row, own),
        };
        let row = &row;
        let id_of = |row: u32| own.map_or(row, |own| own.id(row));
        if let Some(sampler) = &request.sampler {
            let q = sampler.distribution(&whole(row, own, request.vocab)?);
            let mut rng = sampler.rng(request.position + drafts.len(), Purpose::Draft);
            let id = draw(&q, rand::RngExt::random(&mut rng));
            let log_q = q.get(id as usize).map_or(f32::NEG_INFINITY, |q| q.ln());
            let confidence = q.iter().copied().fold(0.0, f32::max);
            let best = vec![(id, log_q)];
            return Ok(Self { best, confidence, distribution: Some(Arc::new(q)) });
        }
        let facts = row.facts();
        let mut best: Vec<(u32, f32)> = match count {
            1 => vec![(id_of(facts.argmax), facts.log_probability(facts.max))],
            _ => row.top(count).into_iter().map(|(row, p)| (id_of(row), p)).collect(),
        };
        best.retain(|(id, log_p)| allowed.allows(*id) && *log_p > f32::NEG_INFINITY);
        let plain = Sampler { temperature: 1.0, ..Sampler::GREEDY };
        let distribution = match request.distributions {
            true => Some(Arc::new(plain.distribution(&whole(row, own, request.vocab)?))),
            false => None,
        };
        let confidence = best.first().map_or(0.0, |best| best.1.exp());
        Ok(Self { best, confidence, distribution })
    }
}

/// The choices after each of these branches of drafts, from the rows that predict what follows. `own` are the ids of the rows, if they
/// are not the target's.
pub(super) fn read(
    logits: &Logits,
    request: &DraftRequest<'_>,
    count: usize,
    own: Option<&DraftVocabulary>,
    branches: &[Vec<u32>],
) -> Result<Vec<Choices>> {
    let allowed = branches.iter().map(|branch| request.allowed(branch));
    let allowed: Vec<Allowed> = allowed.collect::<Result<_>>()?;
    logits.read(&needs(request, count, own), |rows| {
        rows.into_iter()
            .zip(allowed.iter().zip(branches))
            .map(|(row, (allowed, branch))| Choices::of(row, allowed, branch, request, count, own))
            .collect()
    })?
}

/// What has to be known of the rows for `count` choices.
pub(super) fn needs(request: &DraftRequest<'_>, count: usize, own: Option<&DraftVocabulary>) -> LogitNeeds {
    LogitNeeds {
        vocab: own.map_or(request.vocab, |own| own.rows_below(request.vocab)),
        whole: request.sampler.is_some()
            || request.distributions
            || request.grammar.is_some()
            || request.history.is_some(),
        top: count,
        ids: Vec::new(),
    }
}

/// Add the chosen token to the proposal, with the distribution that it was taken from.
pub(super) fn add(
    proposal: &mut Proposal,
    parent: Option<usize>,
    choice: (u32, f32),
    from: &Choices,
) -> usize {
    proposal.distributions.extend(from.distribution.clone());
    proposal.tree.push(parent, choice.0, Some(choice.1.exp()))
}

/// Add a branch's next draft, the choice of this rank, unless there is none or the branch ends before it. Next to a first choice, those
/// others are added that are worth verifying.
pub(super) fn grow(
    proposal: &mut Proposal,
    parent: Option<usize>,
    choices: &Choices,
    rank: usize,
    branch: &mut Branch<'_>,
) -> Option<usize> {
    let choice = *choices.best.get(rank)?;
    let probability = if rank == 0 { choices.confidence } else { choice.1.exp() };
    let before = *branch;
    if !branch.take(probability) {
        proposal.unsure.get_or_insert(probability);
        return None;
    }
    let node = add(proposal, parent, choice, choices);
    let others = choices.best.iter().skip(1).filter(|_| rank == 0);
    for &other in others.take_while(|other| before.admits_other(probability, other.1.exp())) {
        add(proposal, parent, other, choices);
    }
    Some(node)
}
