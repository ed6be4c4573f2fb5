//! One generation: a target, perhaps a drafter, and a method; step by step until an end token or the asked length.
//!
//! The root is the last token of the text that is not in the target's cache: before the first step the prompt's last token,
//! later the last emitted one. A step drafts a chain after the root, feeds the target [root, drafts…] as rows in one pass, and
//! judges: row i says what the target wants in draft i's place, the state of draft i is the state at its own row. The
//! accepted prefix stands, the target's token of the next row follows, and both caches roll back to what stands.

use std::time::Instant;

use candle_core::Result;
use rand::RngExt;

use super::{
    accept::{self, Row, relevance::VisualStates},
    draft::{Chain, ModelDrafter, Order},
    method::{Acceptance, EntropyOver, Method, Shape},
    sampling::{Purpose, RowFacts, Sampler, draw, entropy_full, residual, top_log_probabilities},
};
use crate::{
    model::decoder::{Sequence, Taps, with_slice},
    record::{Step, StopReason, Token, Verdict},
};

/// What a session needs to know about the text.
pub struct Rules<'a> {
    /// The method.
    pub method: &'a Method,
    /// Temperature, nucleus, seed.
    pub sampler: Sampler,
    /// Stop after this many tokens.
    pub max_new_tokens: usize,
    /// Logits from here on are padding (the smaller real vocabulary of target and drafter).
    pub vocab: usize,
    /// End tokens.
    pub ends: &'a [u32],
    /// True for tokens that are never loosened beside the end tokens: special tokens, words that must stay strict.
    pub protected: &'a dyn Fn(u32) -> bool,
    /// How many of the target's most likely tokens to report.
    pub logprobs: usize,
}

/// A running generation over borrowed sequences, each holding the prompt without its last token.
pub struct Session<'a> {
    rules: Rules<'a>,
    target: &'a mut Sequence,
    drafter: Option<ModelDrafter<'a>>,
    visual: &'a VisualStates,
    root: u32,
    emitted: usize,
    steps: usize,
    finished: Option<StopReason>,
    /// Time spent on relevance so far, in milliseconds.
    pub relevance_ms: f64,
    /// Times of single drafter rows, in milliseconds.
    pub drafter_row_ms: Vec<f64>,
}

impl<'a> Session<'a> {
    /// Begin. `root` is the prompt's last token; `visual` are the target's final states at the visual tokens.
    pub fn new(
        rules: Rules<'a>,
        target: &'a mut Sequence,
        drafter: Option<&'a mut Sequence>,
        visual: &'a VisualStates,
        root: u32,
    ) -> Self {
        let finished = (rules.max_new_tokens == 0).then_some(StopReason::Length);
        Self {
            rules,
            target,
            drafter: drafter.map(|sequence| ModelDrafter::new(sequence, root)),
            visual,
            root,
            emitted: 0,
            steps: 0,
            finished,
            relevance_ms: 0.0,
            drafter_row_ms: Vec::new(),
        }
    }

    /// Why the generation ended, once it has.
    pub fn finished(&self) -> Option<StopReason> {
        self.finished
    }

    /// Run one step; none once the generation has ended. The tokens' texts are left empty: who owns a tokenizer fills them.
    ///
    /// # Errors
    /// If a forward pass fails.
    pub fn step(&mut self) -> Result<Option<Step>> {
        if self.finished.is_some() {
            return Ok(None);
        }
        let started = Instant::now();
        let chain = self.draft()?;
        let drafted_at = started.elapsed();
        let taps = Taps::default();
        let base = self.target.len();
        let rows: Vec<u32> = std::iter::once(self.root).chain(chain.ids.iter().copied()).collect();
        let pass = self.target.feed(&rows, &taps)?;
        let logits = self.target.logits(&pass.states)?;
        let verified_at = started.elapsed();

        let width = logits.dim(1)?;
        let tokens = with_slice(&logits, |logits| {
            let rows: Vec<&[f32]> =
                logits.chunks_exact(width).map(|row| &row[..self.rules.vocab.min(width)]).collect();
            with_slice(&pass.states, |states| self.judge(&chain, &rows, states))
        })??;
        self.commit(base, &chain, &tokens);
        let tokens = self.emit(tokens);
        let total = started.elapsed();
        let ms = |d: std::time::Duration| d.as_secs_f64() * 1e3;
        self.steps += 1;
        Ok(Some(Step {
            index: self.steps - 1,
            judged: chain.ids.len(),
            drafted: chain.ids,
            drafted_text: Vec::new(),
            accepted: tokens.iter().filter(|t| t.verdict.is_accepted_draft()).count(),
            tokens,
            draft_ms: ms(drafted_at),
            verify_ms: ms(verified_at - drafted_at),
            other_ms: ms(total - verified_at),
        }))
    }

    fn draft(&mut self) -> Result<Chain> {
        let Some(drafter) = &mut self.drafter else { return Ok(Chain::default()) };
        let Shape::Chain { length } = self.rules.method.shape;
        let samples =
            matches!(self.rules.method.acceptance, Acceptance::Sampled {}) && !self.rules.sampler.is_greedy();
        let chain = drafter.chain(&Order {
            length: length.min(self.rules.max_new_tokens - self.emitted),
            ends: self.rules.ends,
            vocab: self.rules.vocab,
            sampler: samples.then_some(self.rules.sampler),
            position: self.emitted,
        })?;
        self.drafter_row_ms.extend(&chain.pass_ms);
        Ok(chain)
    }

    /// The tokens that come out of a verify pass, an end token included: the accepted drafts, then the target's own.
    fn judge(&mut self, chain: &Chain, rows: &[&[f32]], states: &[f32]) -> Vec<Token> {
        let k = chain.ids.len();
        let facts: Vec<RowFacts> = rows.iter().map(|row| RowFacts::of(row)).collect();
        let sampler = self.rules.sampler;
        let choose = |(i, facts): (usize, &RowFacts)| match sampler.is_greedy() {
            true => facts.argmax,
            false => sampler.token(rows[i], self.emitted + i),
        };
        let wanted: Vec<u32> = facts.iter().enumerate().map(choose).collect();
        let judged = self.rows(chain, rows, &facts, &wanted, states);
        let mut rng = self.rules.sampler.rng(self.emitted, Purpose::Accept);
        if let Acceptance::Random { seed, .. } = self.rules.method.acceptance {
            rng = Sampler { seed: self.rules.sampler.seed ^ seed, ..self.rules.sampler }
                .rng(self.emitted, Purpose::Accept);
        }
        let samples = !chain.distributions.is_empty();
        let (verdicts, replacement) = if samples {
            self.judge_sampled(chain, rows, &mut rng)
        } else {
            (accept::judge(&self.rules.method.acceptance, &judged, &mut rng), None)
        };
        let n = accept::accepted(&verdicts);
        let ranks = accept::relevance::ascending(&judged);
        let mut tokens = Vec::with_capacity(n + 1);
        for i in 0..=n {
            let drafted = i < n;
            let id = if drafted { chain.ids[i] } else { replacement.unwrap_or(wanted[i]) };
            let verdict = match verdicts.get(i) {
                Some(Some(verdict)) => *verdict,
                _ if k == 0 && self.drafter.is_none() => Verdict::Plain,
                Some(None) => Verdict::Corrected,
                None => Verdict::Bonus,
            };
            let relevance = judged.get(i).and_then(|row| row.relevance).filter(|_| drafted);
            let logit = rows[i].get(id as usize).copied().unwrap_or(f32::NEG_INFINITY);
            tokens.push(Token {
                id,
                text: String::new(),
                verdict,
                target_id: wanted[i],
                relevance,
                relevance_rank: relevance.and_then(|_| ranks.iter().position(|&r| r == i)).map(|r| r as u32),
                entropy: Some(match self.rules.method.acceptance {
                    Acceptance::Entropy { entropy: EntropyOver::Full, .. }
                    | Acceptance::Window { entropy: EntropyOver::Full, .. } => {
                        entropy_full(rows[i], &facts[i])
                    }
                    _ => facts[i].entropy_top3(),
                }),
                probability: Some(facts[i].log_probability(logit).exp()),
                drafter_probability: chain.probabilities.get(i).copied().filter(|_| drafted),
                logprobs: top_log_probabilities(rows[i], &facts[i], self.rules.logprobs),
            });
        }
        tokens
    }

    fn rows(
        &mut self,
        chain: &Chain,
        rows: &[&[f32]],
        facts: &[RowFacts],
        wanted: &[u32],
        states: &[f32],
    ) -> Vec<Row> {
        let k = chain.ids.len();
        let relevance = match self.rules.method.acceptance {
            Acceptance::Visual { top_n, .. } if k > 0 => {
                let started = Instant::now();
                let width = states.len() / rows.len();
                // The state of draft i is the state at its own row, i + 1.
                let relevance = self.visual.relevance(&states[width..], top_n);
                self.relevance_ms += started.elapsed().as_secs_f64() * 1e3;
                Some(relevance)
            }
            _ => None,
        };
        let full = matches!(
            self.rules.method.acceptance,
            Acceptance::Entropy { entropy: EntropyOver::Full, .. }
                | Acceptance::Window { entropy: EntropyOver::Full, .. }
        );
        let protected = |id: u32| self.rules.ends.contains(&id) || (self.rules.protected)(id);
        (0..k)
            .map(|i| {
                let logit = rows[i].get(chain.ids[i] as usize).copied().unwrap_or(f32::NEG_INFINITY);
                Row {
                    draft: chain.ids[i],
                    wanted: wanted[i],
                    log_p_draft: facts[i].log_probability(logit),
                    log_p_max: facts[i].log_probability(facts[i].max),
                    entropy_top3: facts[i].entropy_top3(),
                    entropy_full: if full { entropy_full(rows[i], &facts[i]) } else { 0.0 },
                    relevance: relevance.as_ref().map(|r| r[i]),
                    protected: protected(chain.ids[i]) || protected(wanted[i]),
                }
            })
            .collect()
    }

    /// Accept draft i with min(1, p/q); in place of the first rejected one a token from norm(max(p - q, 0)). What comes out
    /// has the target's distribution. The bonus is the target's own token.
    fn judge_sampled(
        &self,
        chain: &Chain,
        rows: &[&[f32]],
        rng: &mut rand_chacha::ChaCha8Rng,
    ) -> (Vec<Option<Verdict>>, Option<u32>) {
        let mut verdicts = Vec::with_capacity(chain.ids.len());
        for ((&id, q), row) in chain.ids.iter().zip(&chain.distributions).zip(rows) {
            let p = self.rules.sampler.distribution(row);
            let (pd, qd) = (p[id as usize], q[id as usize]);
            if qd > 0.0 && rng.random::<f32>() * qd < pd {
                verdicts.push(Some(Verdict::Sampled));
            } else {
                verdicts.push(None);
                let replacement = draw(&residual(&p, q), rng.random::<f64>());
                verdicts.resize(chain.ids.len(), None);
                return (verdicts, Some(replacement));
            }
        }
        (verdicts, None)
    }

    /// Roll both sequences back to what stands: the root and all new tokens but the last, which becomes the root.
    fn commit(&mut self, base: usize, chain: &Chain, tokens: &[Token]) {
        let stand = tokens.len() - 1;
        self.target.truncate(base + 1 + stand);
        let root = tokens[stand].id;
        if let Some(drafter) = &mut self.drafter {
            drafter.commit(&chain.ids, stand, root);
        }
        self.root = root;
    }

    /// Cut at an end token and at the asked length, and note the end.
    fn emit(&mut self, mut tokens: Vec<Token>) -> Vec<Token> {
        if let Some(end) = tokens.iter().position(|t| self.rules.ends.contains(&t.id)) {
            tokens.truncate(end);
            self.finished = Some(StopReason::Eos);
        }
        let room = self.rules.max_new_tokens - self.emitted;
        if tokens.len() >= room {
            if tokens.len() > room || self.finished.is_none() {
                self.finished = Some(StopReason::Length);
            }
            tokens.truncate(room);
        }
        self.emitted += tokens.len();
        tokens
    }
}
