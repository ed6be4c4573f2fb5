//! From a proposal and the target's rows to the tokens of a step.

use specreel_tensor::{Error, Result};

use super::{
    accept::{self, Row, relevance},
    draft::Proposal,
    generation::{CustomRule, GenerationConfig},
    method::{Acceptance, Method, RuleNeeds},
    processors::History,
    sampling::{Purpose, RowFacts, Sampler, divergence, entropy_full, top_log_probabilities},
    tree::Tree,
};
use specreel_model::{
    decoder::{LogitNeeds, LogitRow},
    grammar::Allowed,
};
use specreel_record::{Token, Verdict};

/// What judging a tree needs of the target's logits: of each row the logits of the drafts after it, and the most likely ids that
/// are reported; whole rows where a rule compares distributions.
pub(super) fn logit_needs(config: &GenerationConfig<'_>, rule: &RuleNeeds, tree: &Tree) -> LogitNeeds {
    let mut ids = vec![Vec::new(); tree.len() + 1];
    for node in tree.nodes() {
        ids[node.parent.map_or(0, |parent| parent + 1)].push(node.id);
    }
    let whole =
        !config.sampler.is_greedy() || rule.divergence || rule.entropy_full || config.restricts_rows();
    LogitNeeds { vocab: config.vocab, whole, top: config.logprobs, ids }
}

pub(super) fn distributions(sampler: Sampler, logits: &[LogitRow<'_>]) -> Result<Vec<Vec<f32>>> {
    let rows = if sampler.is_greedy() { &[] } else { logits };
    rows.iter().map(|row| Ok(sampler.distribution(row.values()?))).collect()
}

/// The target's own token after each row, at these output positions.
///
/// Judging a tree's siblings in order with the rest of the distribution (EAGLE) is equivalent to drawing the target's token and
/// checking whether it was drafted. Drawn by position, it is also the token of autoregressive decoding.
pub(super) fn own_tokens(
    sampler: Sampler,
    logits: &[LogitRow<'_>],
    distributions: &[Vec<f32>],
    positions: impl Iterator<Item = usize>,
) -> Vec<u32> {
    match sampler.is_greedy() {
        true => logits.iter().map(LogitRow::argmax).collect(),
        false => distributions.iter().zip(positions).map(|(p, at)| sampler.draw(p, at)).collect(),
    }
}

/// The rows with everything impossible that the grammar does not allow after them.
/// Errors: nothing is left of one.
fn restrict<'a>(rows: Vec<LogitRow<'a>>, allowed: &[Allowed]) -> Result<Vec<LogitRow<'a>>> {
    if allowed.is_empty() {
        return Ok(rows);
    }
    let nothing = || Error::Message("the target has no token that the grammar allows".into());
    let rows = rows.into_iter().zip(allowed);
    rows.map(|(row, allowed)| allowed.restrict(row, |id| id)?.ok_or_else(nothing)).collect()
}

/// The target's rows as they count: restricted by the grammar, and processed by the text and the branch above each. `branch` gives the
/// drafts above a row.
/// Errors: the grammar leaves nothing of one.
pub(super) fn counting_rows<'a>(
    rows: Vec<LogitRow<'a>>,
    allowed: &[Allowed],
    history: Option<&History>,
    branch: impl Fn(usize) -> Vec<u32>,
) -> Result<Vec<LogitRow<'a>>> {
    let rows = restrict(rows, allowed)?;
    let Some(history) = history else { return Ok(rows) };
    let process = |(at, row): (usize, LogitRow<'a>)| {
        let vocab = row.values()?.len();
        history.process(&row, None, vocab, &branch(at))
    };
    rows.into_iter().enumerate().map(process).collect()
}

/// The nodes that are the only one allowed where they are.
pub(super) fn forced(tree: &Tree, allowed: &[Allowed]) -> Vec<usize> {
    let only =
        |parent: Option<usize>| allowed.get(parent.map_or(0, |parent| parent + 1)).and_then(Allowed::only);
    let nodes = tree.nodes().iter().enumerate();
    nodes.filter(|(_, node)| only(node.parent) == Some(node.id)).map(|(at, _)| at).collect()
}

/// The rows of one verify pass: row 0 is the root's, row `i + 1` node `i`'s.
pub(super) struct VerifiedRows<'a> {
    config: &'a GenerationConfig<'a>,
    needs: RuleNeeds,
    proposal: &'a Proposal,
    /// Output position after the root.
    position: usize,
    /// Logits without padding.
    logits: Vec<LogitRow<'a>>,
    /// The distribution of each row, where the text is sampled.
    distributions: Vec<Vec<f32>>,
    /// The target's own token after each row.
    wanted: Vec<u32>,
    /// Relevance of each node, if a rule needs it.
    pub relevance: Option<Vec<f32>>,
    /// Attention peak of each row, if a rule needs it.
    pub attention_peaks: Option<Vec<f32>>,
    /// The visual tokens most similar to each row's state, if requested.
    pub nearest_visual: &'a [Vec<(u32, f32)>],
    /// The nodes for which there is no alternative.
    pub forced: &'a [usize],
    /// Judges in place of the method's acceptance, if a measurement has such a rule.
    pub rule: Option<&'a CustomRule<'a>>,
}

impl<'a> VerifiedRows<'a> {
    /// Take the logits of the pass over a proposal; `position` is the output position after its root.
    pub fn new(
        config: &'a GenerationConfig<'a>,
        needs: RuleNeeds,
        proposal: &'a Proposal,
        logits: Vec<LogitRow<'a>>,
        position: usize,
    ) -> Result<Self> {
        let distributions = distributions(config.sampler, &logits)?;
        let positions = proposal.tree.depths().into_iter().map(|depth| position + depth);
        let wanted = own_tokens(config.sampler, &logits, &distributions, positions);
        Ok(Self {
            config,
            needs,
            proposal,
            position,
            logits,
            distributions,
            wanted,
            relevance: None,
            attention_peaks: None,
            nearest_visual: &[],
            forced: &[],
            rule: None,
        })
    }

    /// The tokens that a step emits, and the accepted nodes: the longest accepted branch (of equally long ones the one with
    /// the fewest loosened tokens), and the target's own token after it.
    pub fn judge(&self) -> Result<(Vec<Token>, Vec<usize>)> {
        let (tree, logprobs) = (&self.proposal.tree, self.config.logprobs);
        let rows = self.rows()?;
        let mut best: Option<(usize, usize, Judged)> = None;
        for leaf in tree.leaves() {
            let judged = self.branch(&rows, tree.path(leaf));
            let accepted = accept::accepted(&judged.verdicts);
            let loosened =
                judged.verdicts[..accepted].iter().flatten().filter(|verdict| !verdict.is_strict()).count();
            let better = best.as_ref().is_none_or(|(most, fewest, _)| {
                accepted > *most || (accepted == *most && loosened < *fewest)
            });
            if better {
                best = Some((accepted, loosened, judged));
            }
        }
        let (accepted, judged) = best.map(|(n, _, judged)| (n, judged)).unwrap_or_default();
        let ranks = relevance::ascending(&judged.rows, |row| row.relevance);
        let mut tokens = Vec::with_capacity(accepted + 1);
        for i in 0..=accepted {
            let drafted = i < accepted;
            let node = judged.path.get(i).copied().filter(|_| drafted);
            let row = i.checked_sub(1).map_or(0, |before| judged.path[before] + 1);
            let id = match node {
                Some(node) => tree.nodes()[node].id,
                None => judged.replacement.unwrap_or(self.wanted[row]),
            };
            let verdict = match judged.verdicts.get(i) {
                Some(Some(verdict)) => *verdict,
                Some(None) => Verdict::Corrected,
                None if tree.is_empty() => Verdict::Plain,
                None => Verdict::Bonus,
            };
            let known = judged.rows.get(i).filter(|_| drafted);
            let relevance = known.and_then(|row| row.relevance);
            let logits = &self.logits[row];
            let q = judged.path.get(i).and_then(|&node| self.proposal.distribution(node));
            tokens.push(Token {
                drafter_logprobs: q.map_or_else(Vec::new, |q| top_of_distribution(q, logprobs)),
                nearest_visual: node
                    .and_then(|node| self.nearest_visual.get(node + 1))
                    .cloned()
                    .unwrap_or_default(),
                target_id: self.wanted[row],
                relevance,
                relevance_rank: relevance.and_then(|_| ranks.iter().position(|&r| r == i)).map(|r| r as u32),
                attention_peak: known.and_then(|row| row.attention_peak),
                divergence: known.and_then(|row| row.divergence),
                entropy: Some(match self.needs.entropy_full {
                    true => entropy_full(logits.values()?, logits.facts()),
                    false => logits.facts().entropy_top3(),
                }),
                drafter_probability: node.and_then(|node| tree.nodes()[node].probability),
                ..emitted_token(self.config, id, verdict, logits)?
            });
        }
        let path = judged.path[..accepted].to_vec();
        Ok((tokens, path))
    }

    fn branch(&self, rows: &[Row], path: Vec<usize>) -> Judged {
        let rows: Vec<Row> = path.iter().map(|&node| rows[node].clone()).collect();
        let (method, sampler) = (self.config.method, self.config.sampler);
        if method.acceptance == (Acceptance::Sampled {}) && !self.proposal.distributions.is_empty() {
            let (verdicts, replacement) = self.sampled(&path);
            return Judged { path, rows, verdicts, replacement };
        }
        // What is certain is no evidence, and no draft that a rule may count.
        let free = rows.iter().zip(&path).filter(|(_, node)| !self.forced.contains(node));
        let free: Vec<Row> = free.map(|(row, _)| row.clone()).collect();
        let mut verdicts = match self.rule {
            Some(rule) => rule(&free),
            None => {
                let mut rng = chance(method, sampler).rng(self.position, Purpose::Accept);
                accept::judge(&method.acceptance, &free, &mut rng)
            }
        }
        .into_iter();
        let verdict = |node: &usize| match self.forced.contains(node) {
            true => Some(Verdict::Forced),
            false => verdicts.next().flatten(),
        };
        Judged { verdicts: path.iter().map(verdict).collect(), path, rows, replacement: None }
    }

    /// The row of every node; it does not depend on the branch in which the node is judged.
    fn rows(&self) -> Result<Vec<Row>> {
        let (config, needs, proposal) = (self.config, &self.needs, self.proposal);
        let probabilities = needs.probabilities || self.rule.is_some();
        let protected = |id: u32| config.ends.contains(&id) || (config.protected)(id);
        let nodes = proposal.tree.nodes().iter().enumerate();
        nodes
            .map(|(node, drafted)| {
                let row = drafted.parent.map_or(0, |parent| parent + 1);
                let (draft, wanted, logits) = (drafted.id, self.wanted[row], &self.logits[row]);
                let mut known = Row {
                    draft,
                    wanted,
                    relevance: self.relevance.as_ref().map(|relevance| relevance[node]),
                    attention_peak: self.attention_peaks.as_ref().map(|peaks| peaks[row]),
                    protected: protected(draft) || protected(wanted),
                    ..Row::default()
                };
                if probabilities {
                    let facts = logits.facts();
                    known.log_p_draft = facts.log_probability(logits.logit(draft)?);
                    known.log_p_max = facts.log_probability(facts.max);
                    known.entropy_top3 = facts.entropy_top3();
                }
                if needs.entropy_full {
                    known.entropy_full = entropy_full(logits.values()?, logits.facts());
                }
                if needs.divergence {
                    let (values, q) = (logits.values()?, proposal.distribution(node));
                    known.divergence = q.map(|q| divergence(values, logits.facts(), q));
                }
                Ok(known)
            })
            .collect()
    }

    /// Accept draft i with min(1, p/q); the first rejected one is replaced by a token from norm(max(p - q, 0)). The result has
    /// the target's distribution. The bonus is the target's own token.
    fn sampled(&self, path: &[usize]) -> (Vec<Option<Verdict>>, Option<u32>) {
        let (sampler, proposal) = (self.config.sampler, self.proposal);
        let mut verdicts = Vec::with_capacity(path.len());
        for (i, &node) in path.iter().enumerate() {
            if self.forced.contains(&node) {
                verdicts.push(Some(Verdict::Forced));
                continue;
            }
            let (id, q) = (proposal.tree.nodes()[node].id, &proposal.distributions[node]);
            let row = i.checked_sub(1).map_or(0, |before| path[before] + 1);
            let (p, at) = (&self.distributions[row], self.position + i);
            if !sampler.accepts(id, p, q, at) {
                verdicts.resize(path.len(), None);
                return (verdicts, Some(sampler.replacement(p, q, at)));
            }
            verdicts.push(Some(Verdict::Sampled));
        }
        (verdicts, None)
    }
}

/// An emitted token with its probability, entropy and alternatives in the target's row before it.
/// Errors: the row lacks the logit of the token.
pub(super) fn emitted_token(
    config: &GenerationConfig<'_>,
    id: u32,
    verdict: Verdict,
    logits: &LogitRow<'_>,
) -> Result<Token> {
    let facts = logits.facts();
    Ok(Token {
        entropy: Some(facts.entropy_top3()),
        probability: Some(facts.log_probability(logits.logit(id)?).exp()),
        logprobs: logits.top(config.logprobs),
        ..Token::new(id, "", verdict)
    })
}

/// The `count` most likely ids of a distribution with natural-log probabilities, best first.
fn top_of_distribution(q: &[f32], count: usize) -> Vec<(u32, f32)> {
    // Treated as logits that are already normalized.
    let facts = RowFacts { argmax: 0, max: 0.0, log_sum: 0.0, top3: [0.0; 3] };
    let top = top_log_probabilities(q, &facts, count).into_iter();
    top.filter(|(_, q)| *q > 0.0).map(|(id, q)| (id, q.ln())).collect()
}

#[derive(Default)]
struct Judged {
    path: Vec<usize>,
    rows: Vec<Row>,
    verdicts: Vec<Option<Verdict>>,
    replacement: Option<u32>,
}

/// The random baseline combines its own seed with the text's.
fn chance(method: &Method, sampler: Sampler) -> Sampler {
    Sampler { seed: sampler.seed ^ own_seed(&method.acceptance), ..sampler }
}

fn own_seed(rule: &Acceptance) -> u64 {
    match rule {
        Acceptance::Random { seed, .. } => *seed,
        Acceptance::AllOf { rules } => rules.iter().map(own_seed).fold(0, |a, b| a ^ b),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_of_a_distribution() {
        let top = top_of_distribution(&[0.25, 0.0, 0.5, 0.25], 9);
        assert_eq!(top.iter().map(|t| t.0).collect::<Vec<_>>(), [2, 0, 3]);
        assert!((top[0].1 - 0.5f32.ln()).abs() < 1e-6);
        assert!(top_of_distribution(&[1.0], 0).is_empty());
    }

    #[test]
    fn a_random_rule_has_its_seed_inside_all_of_too() {
        let random = Acceptance::Random { probability: 0.5, seed: 7 };
        assert_eq!(own_seed(&random), 7);
        assert_eq!(own_seed(&Acceptance::AllOf { rules: vec![Acceptance::Lenient { rho: 0.1 }, random] }), 7);
        assert_eq!(own_seed(&Acceptance::Exact {}), 0);
    }
}

#[cfg(test)]
#[path = "verify_tests.rs"]
mod needs_tests;
