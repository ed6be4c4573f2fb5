//! One generation under the sequential schedule: a target, possibly a drafter, and a method; step by step until an end token or
//! the length limit.
//!
//! The root is the last token of the text that is not in the target's cache: before the first step the prompt's last token,
//! later the last emitted one. A step drafts a tree after the root (a chain is one), feeds the target [root, nodes…] as rows
//! in one pass, and judges every branch: row i says what the target wants after it, the state of a draft is the state at its
//! own row. The longest accepted branch is kept, the target's token follows it, and both caches roll back to the kept tokens.

use std::time::{Duration, Instant};

use candle_core::{Result, Tensor};

use super::{
    accept::{RuleNeeds, relevance::VisualStates},
    auto::AutoLength,
    draft::{DraftRequest, Form, Proposal, Proposer},
    generation::{GenerationConfig, GenerationInputs, drafter},
    method::{Acceptance, Length, Shape},
    tree::Template,
    verify::VerifiedRows,
};
use crate::{
    model::decoder::{Sequence, Taps, with_slice},
    record::{Step, StopReason, Token},
};

/// Visual tokens reported with each inspected token.
const LOOKS: usize = 24;

/// A running generation.
pub struct Session<'a> {
    config: GenerationConfig<'a>,
    target: &'a mut Sequence,
    drafter: Option<Box<dyn Proposer + 'a>>,
    visual: &'a VisualStates,
    needs: RuleNeeds,
    taps: Taps,
    template: Option<Template>,
    auto: Option<AutoLength>,
    root: u32,
    text: Output,
    steps: usize,
    /// Time spent on relevance so far, in milliseconds.
    pub relevance_ms: f64,
    /// Times of single drafter rows, in milliseconds.
    pub drafter_row_ms: Vec<f64>,
}

impl<'a> Session<'a> {
    /// Begin a generation.
    pub fn new(config: GenerationConfig<'a>, inputs: GenerationInputs<'a>) -> Self {
        let method = config.method;
        let needs = RuleNeeds::of(&method.acceptance);
        let template = match &method.shape {
            // Methods are validated before they run; an invalid one drafts nothing.
            Shape::StaticTree { nodes } => Template::read(nodes).ok(),
            _ => None,
        };
        let auto =
            (method.shape == Shape::Chain { length: Length::AUTO }).then(|| AutoLength::new(config.row_ms));
        Self {
            taps: inputs.taps(needs),
            root: inputs.root(),
            drafter: drafter(method, inputs.drafter, inputs.head, inputs.prompt),
            target: inputs.target,
            visual: inputs.visual,
            needs,
            template,
            auto,
            text: Output::new(config.max_new_tokens),
            config,
            steps: 0,
            relevance_ms: 0.0,
            drafter_row_ms: Vec::new(),
        }
    }

    /// Why the generation ended, once it has.
    pub fn finished(&self) -> Option<StopReason> {
        self.text.finished
    }

    /// Run one step; none once the generation has ended. The tokens' texts are left empty for the owner of the tokenizer.
    ///
    /// # Errors
    /// If a forward pass fails.
    pub fn step(&mut self) -> Result<Option<Step>> {
        if self.text.finished.is_some() {
            return Ok(None);
        }
        let started = Instant::now();
        let proposal = self.draft()?;
        let tree = &proposal.tree;
        let drafted_at = started.elapsed();
        let (base, position) = (self.target.len(), self.text.emitted);
        let rows: Vec<u32> =
            std::iter::once(self.root).chain(tree.nodes().iter().map(|node| node.id)).collect();
        let depths = tree.depths();
        let pass = match tree.is_chain() {
            true => self.target.feed(&rows, &self.taps)?,
            false => self.target.feed_tree(&rows, base, &depths, tree.rows(), &self.taps)?,
        };
        let logits = self.target.logits(&pass.states)?;
        let verified_at = started.elapsed();

        let width = logits.dim(1)?;
        let relevance = match self.needs.relevance {
            Some(top_n) if !tree.is_empty() => {
                let started = Instant::now();
                let relevance = with_slice(&pass.states, |states| {
                    // The state of a draft is the state at its own row.
                    self.visual.relevance(&states[states.len() / rows.len()..], top_n)
                })?;
                self.relevance_ms += ms(started.elapsed());
                Some(relevance)
            }
            _ => None,
        };
        // Log-probabilities are requested by inspectors, which also show the most similar visual tokens.
        let looks = match self.config.logprobs {
            0 => Vec::new(),
            _ => with_slice(&pass.states, |states| self.visual.nearest(states, LOOKS))?,
        };
        let (tokens, path) = with_slice(&logits, |logits| {
            let vocab = self.config.vocab.min(width);
            let logits = logits.chunks_exact(width).map(|row| &row[..vocab]).collect();
            let mut verified = VerifiedRows::new(&self.config, logits, &depths, position);
            verified.relevance = relevance;
            verified.gaze = pass.attention.map(|stats| stats.peaks);
            verified.looks = &looks;
            verified.judge(&self.config, &proposal, position)
        })?;
        self.commit(base, &proposal, &path, &tokens, &pass.states)?;
        let tokens = self.text.emit(tokens, self.config.ends);
        let (draft_ms, verify_ms) = (ms(drafted_at), ms(verified_at - drafted_at));
        if let Some(auto) = &mut self.auto {
            auto.note(tree.len(), path.len(), verify_ms, draft_ms);
        }
        self.steps += 1;
        Ok(Some(Step {
            index: self.steps - 1,
            judged: tree.len(),
            parents: match tree.is_chain() {
                true => Vec::new(),
                false => tree.nodes().iter().map(|node| node.parent).collect(),
            },
            path: if tree.is_chain() { Vec::new() } else { path },
            drafted: tree.nodes().iter().map(|node| node.id).collect(),
            drafted_text: Vec::new(),
            accepted: tokens.iter().filter(|t| t.verdict.is_accepted_draft()).count(),
            tokens,
            root_looks: looks.into_iter().next().unwrap_or_default(),
            draft_ms,
            verify_ms,
            other_ms: ms(started.elapsed() - verified_at),
        }))
    }

    fn draft(&mut self) -> Result<Proposal> {
        let (Some(drafter), method) = (&mut self.drafter, self.config.method) else {
            return Ok(Proposal::default());
        };
        let room = self.config.max_new_tokens - self.text.emitted;
        let (form, depth) = match (&method.shape, &self.template) {
            (Shape::Chain { length: Length::Fixed(length) }, _) => (Form::Chain, *length),
            (Shape::Chain { .. }, _) => (Form::Chain, self.auto.as_mut().map_or(0, AutoLength::choose)),
            (Shape::StaticTree { .. }, Some(template)) => (Form::Static(template), method.shape.longest()),
            (Shape::StaticTree { .. }, None) => return Ok(Proposal::default()),
            (Shape::TwoBranch { length }, _) => (Form::TwoBranch, *length),
            (Shape::DynamicTree { total, depth, width }, _) => {
                (Form::Dynamic { nodes: total - 1, width: *width }, *depth)
            }
        };
        if depth.min(room) == 0 {
            return Ok(Proposal::default());
        }
        let proposal = drafter.draft(&DraftRequest {
            depth: depth.min(room),
            ends: self.config.ends,
            special: self.config.special,
            vocab: self.config.vocab,
            sampler: (self.config.draws_drafts() && matches!(form, Form::Chain))
                .then_some(self.config.sampler),
            // Drawn drafts keep their distributions anyway.
            distributions: self.needs.divergence
                || (self.config.logprobs > 0 && method.acceptance != Acceptance::Sampled {}),
            position: self.text.emitted,
            form,
        })?;
        self.drafter_row_ms.extend(&proposal.pass_ms);
        Ok(proposal)
    }

    /// Roll both sequences back to the kept tokens: the root and all new tokens but the last, which becomes the root.
    fn commit(
        &mut self,
        base: usize,
        proposal: &Proposal,
        path: &[usize],
        tokens: &[Token],
        states: &Tensor,
    ) -> Result<()> {
        if proposal.tree.is_chain() {
            self.target.truncate(base + 1 + path.len());
        } else {
            let rows: Vec<usize> = std::iter::once(0).chain(path.iter().map(|node| node + 1)).collect();
            self.target.keep(base, &rows);
        }
        let Some(last) = tokens.last() else { return Ok(()) };
        if let Some(drafter) = &mut self.drafter {
            drafter.commit(proposal, path, last.id, self.target, base, states)?;
        }
        self.root = last.id;
        Ok(())
    }
}

/// Counts the emitted tokens and finds the end of the text.
pub(super) struct Output {
    most: usize,
    pub emitted: usize,
    pub finished: Option<StopReason>,
}

impl Output {
    /// An empty text that may grow to `most` tokens.
    pub fn new(most: usize) -> Self {
        Self { most, emitted: 0, finished: (most == 0).then_some(StopReason::Length) }
    }

    /// Cut at an end token and at the length limit, and note the end. An end token beyond the limit does not count: plain
    /// decoding would not have reached it.
    pub fn emit(&mut self, mut tokens: Vec<Token>, ends: &[u32]) -> Vec<Token> {
        tokens.truncate(self.most - self.emitted);
        if let Some(end) = tokens.iter().position(|t| ends.contains(&t.id)) {
            tokens.truncate(end);
            self.finished = Some(StopReason::Eos);
        }
        self.emitted += tokens.len();
        if self.finished.is_none() && self.emitted == self.most {
            self.finished = Some(StopReason::Length);
        }
        tokens
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Verdict;

    fn tokens(ids: &[u32]) -> Vec<Token> {
        let token = |&id: &u32| Token::new(id, "", Verdict::Exact);
        ids.iter().map(token).collect()
    }

    #[test]
    fn the_text_ends_where_plain_decoding_would_end_it() {
        // The end token is 9, the limit is three tokens.
        for (steps, written, finished) in [
            (&[&[1u32, 2][..]][..], 2, None),
            (&[&[1, 2], &[3]], 3, Some(StopReason::Length)),
            (&[&[1, 2], &[3, 4, 5]], 3, Some(StopReason::Length)),
            (&[&[1, 2, 3, 9]], 3, Some(StopReason::Length)),
            (&[&[1, 2, 9, 3]], 2, Some(StopReason::Eos)),
            (&[&[1, 2], &[9]], 2, Some(StopReason::Eos)),
            (&[&[9]], 0, Some(StopReason::Eos)),
        ] {
            let mut text = Output::new(3);
            let count: usize = steps.iter().map(|ids| text.emit(tokens(ids), &[9]).len()).sum();
            assert_eq!((count, text.emitted, text.finished), (written, written, finished), "{steps:?}");
        }
        assert_eq!(Output::new(0).finished, Some(StopReason::Length));
    }
}
