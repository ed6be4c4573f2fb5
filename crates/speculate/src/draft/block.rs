//! A draft head that drafts a block of tokens in one pass (DFlash), with DFlash 2's selector if it has one.

use std::time::Instant;

use specreel_tensor::Result;

use super::{Branch, DraftRequest, Form, Proposal, Proposer, choices};
use choices::{Choices, add, grow};
use specreel_model::{
    decoder::{LogitNeeds, LogitRow, Sequence, States},
    draft_head::{BlockConfig, DraftHead, DraftVocabulary, Selector},
    grammar::Allowed,
};

/// Drafts with one pass over a block: the root, and a mask token for each draft.
///
/// The cache holds keys and values of context rows: the target's states at the prompt and the accepted
/// tokens. The states of the last accepted tokens are added with the next draft. A block leaves nothing in
/// the cache, so there is nothing to roll back.
pub struct BlockDrafter<'a> {
    sequence: &'a mut Sequence,
    head: &'a DraftHead,
    block: &'a BlockConfig,
    root: u32,
    waiting: Vec<States>,
}

/// The rows of a block, each of which predicts one place. The places are predicted independently: what may follow a branch
/// depends on its length, with a selector on its last token, with a grammar on what that allows, with logits processors on all of it.
struct Places<'r> {
    /// Taken once a place's choices are known for good.
    rows: Vec<Option<LogitRow<'r>>>,
    request: &'r DraftRequest<'r>,
    count: usize,
    /// The choices of each place, where they depend on nothing else.
    known: Vec<Option<Choices>>,
    selected: Option<Selected<'r>>,
}

/// What a selector chooses among.
struct Selected<'r> {
    selector: &'r Selector,
    root: u32,
    /// The places' projected states, one after the other.
    projected: Vec<f32>,
    /// The candidates of each place with their logarithmic probabilities; empty until they are needed.
    candidates: Vec<Vec<(u32, f32)>>,
}

impl<'a> BlockDrafter<'a> {
    /// A drafter whose sequence holds the context rows of the prompt without its last token, `root`; `None` if the head drafts in
    /// another way.
    pub fn new(sequence: &'a mut Sequence, root: u32, head: &'a DraftHead) -> Option<Self> {
        let block = head.block()?;
        Some(Self { sequence, head, block, root, waiting: Vec::new() })
    }
}

impl Selected<'_> {
    /// The choices at a place after these drafts, from the place's row.
    fn choices(
        &mut self,
        row: &LogitRow<'_>,
        drafts: &[u32],
        allowed: &Allowed,
        request: &DraftRequest<'_>,
        count: usize,
    ) -> Result<Choices> {
        let place = drafts.len();
        let candidates = &mut self.candidates[place];
        if candidates.is_empty() {
            *candidates = row.top(self.selector.candidates());
        }
        let rank = self.projected.len() / self.candidates.len();
        let projected = &self.projected[place * rank..][..rank];
        let candidates = &self.candidates[place];
        let before = drafts.last().copied().unwrap_or(self.root);
        let scores = self.selector.scores(before, projected, candidates)?;
        let ids = DraftVocabulary::of(candidates.iter().map(|(id, _)| *id).collect());
        Choices::of(LogitRow::whole(&scores), allowed, drafts, request, count, Some(&ids))
    }
}

impl Places<'_> {
    /// Most tokens of a branch.
    fn depth(&self) -> usize {
        self.rows.len()
    }

    /// The choices after a node of the proposal; `None` = after the root.
    fn after(&mut self, proposal: &Proposal, node: Option<usize>) -> Result<Choices> {
        let nodes = proposal.tree.nodes();
        let branch = node.map_or_else(Vec::new, |node| proposal.tree.path(node));
        let place = branch.len();
        let (Some(known), request) = (self.known.get(place), self.request) else {
            return Ok(Choices::default());
        };
        if let Some(choices) = known {
            return Ok(choices.clone());
        }
        let ids: Vec<u32> = branch.into_iter().map(|node| nodes[node].id).collect();
        let allowed = request.allowed(&ids)?;
        if let Some(selected) = &mut self.selected {
            let Some(Some(row)) = self.rows.get(place) else { return Ok(Choices::default()) };
            return selected.choices(row, &ids, &allowed, request, self.count);
        }
        if request.grammar.is_some() || request.history.is_some() {
            let Some(Some(row)) = self.rows.get(place) else { return Ok(Choices::default()) };
            return Choices::of(LogitRow::whole(row.values()?), &allowed, &ids, request, self.count, None);
        }
        let Some(row) = self.rows[place].take() else { return Ok(Choices::default()) };
        let choices = Choices::of(row, &allowed, &ids, request, self.count, None)?;
        self.known[place] = Some(choices.clone());
        Ok(choices)
    }

    /// True if the branch may continue after this node.
    fn open(&self, proposal: &Proposal, node: usize) -> bool {
        let node = &proposal.tree.nodes()[node];
        node.depth < self.depth() && !self.request.ends.contains(&node.id)
    }

    /// A chain after each of the root's `branches` best tokens.
    fn chains(&mut self, proposal: &mut Proposal, branches: usize) -> Result<()> {
        let first = self.after(proposal, None)?;
        let mut ends = Vec::new();
        for rank in 0..branches {
            let mut branch = Branch::new(self.request.unsure);
            let node = grow(proposal, None, &first, rank, &mut branch);
            ends.extend(node.map(|node| (node, branch)));
        }
        while !ends.is_empty() {
            let mut longer = Vec::new();
            for (end, mut branch) in ends {
                if !self.open(proposal, end) {
                    continue;
                }
                let next = self.after(proposal, Some(end))?;
                let node = grow(proposal, Some(end), &next, 0, &mut branch);
                longer.extend(node.map(|node| (node, branch)));
            }
            ends = longer;
        }
        Ok(())
    }

    /// A tree of fixed form.
    fn template(&mut self, proposal: &mut Proposal, form: &[(Option<usize>, usize)]) -> Result<()> {
        let mut made: Vec<Option<usize>> = Vec::with_capacity(form.len());
        for &(parent, rank) in form {
            let after = match parent.map(|parent| made[parent]) {
                None => Some(None),
                Some(Some(parent)) if self.open(proposal, parent) => Some(Some(parent)),
                Some(_) => None,
            };
            let node = match after {
                None => None,
                Some(parent) => {
                    let choices = self.after(proposal, parent)?;
                    let sure = |choice: &&(u32, f32)| self.request.unsure.admits(choice.1.exp());
                    choices.best.get(rank).filter(sure).map(|&choice| add(proposal, parent, choice, &choices))
                }
            };
            made.push(node);
        }
        Ok(())
    }

    /// The `kept` most likely branches, by the product of their probabilities. A node has up to as many children as there are
    /// choices of a place.
    fn likeliest(&mut self, proposal: &mut Proposal, kept: usize) -> Result<()> {
        struct Candidate {
            parent: Option<usize>,
            rank: usize,
            /// Of the branch before it, and with it.
            log_probability: [f32; 2],
            choices: Choices,
        }
        let unsure = self.request.unsure;
        let candidate = |parent: Option<usize>, rank: usize, before: f32, choices: Choices| {
            let log = choices.best.get(rank)?.1;
            if !unsure.admits(log.exp()) {
                return None;
            }
            Some(Candidate { parent, rank, log_probability: [before, before + log], choices })
        };
        let first = self.after(proposal, None)?;
        let mut open: Vec<Candidate> = candidate(None, 0, 0.0, first).into_iter().collect();
        while proposal.tree.len() < kept {
            let better = |a: &Candidate, b: &Candidate| a.log_probability[1] > b.log_probability[1];
            let first =
                |best: usize, other: usize| if better(&open[other], &open[best]) { other } else { best };
            let Some(best) = (0..open.len()).reduce(first) else { break };
            let Candidate { parent, rank, log_probability: [before, with], choices } = open.swap_remove(best);
            let node = add(proposal, parent, choices.best[rank], &choices);
            open.extend(candidate(parent, rank + 1, before, choices));
            if self.open(proposal, node) {
                let next = self.after(proposal, Some(node))?;
                open.extend(candidate(Some(node), 0, with, next));
            }
        }
        Ok(())
    }
}

impl Proposer for BlockDrafter<'_> {
    fn draft(&mut self, request: &DraftRequest<'_>, _: Option<&mut Sequence>) -> Result<Proposal> {
        let mut proposal = Proposal::forced(request.forced);
        let depth = request.depth.min(self.block.most_drafts());
        // The head drafts from the target's states before the root, which a forced token has only after the target's pass.
        if depth == 0 || !request.forced.is_empty() {
            return Ok(proposal);
        }
        let started = Instant::now();
        if !self.waiting.is_empty() {
            self.sequence.inject(&States::cat(&self.waiting)?)?;
            self.waiting.clear();
        }
        let runs = self.block.runs(self.sequence.len());
        let pass = self.sequence.feed_block(&self.block.ids(self.root), &runs)?;
        let states = pass.states.narrow(1, depth)?;
        let projected = self.head.select(self.sequence, &states)?;
        let logits = self.sequence.logits(&states)?;
        let count = match request.form {
            Form::Chain => request.chain_choices(),
            Form::TwoBranch => 2,
            Form::Static(template) => template.nodes().iter().map(|(_, rank)| rank + 1).max().unwrap_or(1),
            Form::Dynamic { width, .. } => width,
        };
        let selected = projected.map(|(selector, projected)| Selected {
            selector,
            root: self.root,
            projected,
            candidates: vec![Vec::new(); depth],
        });
        let needs = match &selected {
            None => choices::needs(request, count, None),
            // All choices are among the candidates.
            Some(selected) => LogitNeeds {
                vocab: request.vocab,
                whole: false,
                top: selected.selector.candidates(),
                ids: Vec::new(),
            },
        };
        logits.read(&needs, |rows| {
            let known = vec![None; rows.len()];
            let rows = rows.into_iter().map(Some).collect();
            let mut places = Places { rows, request, count, known, selected };
            match request.form {
                Form::Chain => places.chains(&mut proposal, 1),
                Form::TwoBranch => places.chains(&mut proposal, 2),
                Form::Static(template) => places.template(&mut proposal, template.nodes()),
                Form::Dynamic { nodes, .. } => places.likeliest(&mut proposal, nodes),
            }
        })??;
        // What a draft costs: its share of the pass.
        let ms = started.elapsed().as_secs_f64() * 1e3;
        proposal.pass_ms.push(ms / depth as f64);
        Ok(proposal)
    }

    fn commit(
        &mut self,
        _: &Proposal,
        path: &[usize],
        root: u32,
        _: &Sequence,
        _: usize,
        states: &States,
    ) -> Result<()> {
        let rows: Vec<usize> = std::iter::once(0).chain(path.iter().map(|node| node + 1)).collect();
        self.waiting.push(self.head.reduce(&states.select(&rows)?)?);
        self.root = root;
        Ok(())
    }
}
