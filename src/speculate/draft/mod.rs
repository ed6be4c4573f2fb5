//! Who proposes: a decoder over its own context, drafting a chain.

use candle_core::Result;

use super::sampling::{Purpose, RowFacts, Sampler, draw};
use crate::model::decoder::{Sequence, Taps, with_slice};

/// A drafted chain.
#[derive(Clone, Debug, Default)]
pub struct Chain {
    /// The drafted ids.
    pub ids: Vec<u32>,
    /// Probability of each under the drafter.
    pub probabilities: Vec<f32>,
    /// The drafter's whole distribution at each, where sampling asks for it.
    pub distributions: Vec<Vec<f32>>,
    /// Time of each drafter pass of one row, in milliseconds.
    pub pass_ms: Vec<f64>,
}

/// What one step asks of a drafter.
pub struct Order<'a> {
    /// At most this many tokens.
    pub length: usize,
    /// Ids at which the chain stops.
    pub ends: &'a [u32],
    /// Logits from here on are padding.
    pub vocab: usize,
    /// Draw from the drafter's distribution (and keep it) instead of taking its best token.
    pub sampler: Option<Sampler>,
    /// Output position of the first drafted token.
    pub position: usize,
}

/// A drafter that is a decoder: a smaller model, or the target itself with fewer visual tokens.
///
/// Its cache holds the prompt (as its context shows it) and the accepted tokens. After a step in which all drafts passed it has
/// not seen the last of them; that one waits in `unseen` and is fed together with the next root.
pub struct ModelDrafter<'a> {
    sequence: &'a mut Sequence,
    /// Accepted tokens that are not in the cache yet; the root comes last.
    unseen: Vec<u32>,
    /// Slots of prompt and accepted tokens.
    base: usize,
    /// Ids beyond this do not exist for the drafter.
    embeddable: usize,
}

impl<'a> ModelDrafter<'a> {
    /// A drafter whose sequence holds the prompt without its last token, `root`.
    pub fn new(sequence: &'a mut Sequence, root: u32) -> Self {
        let base = sequence.len();
        let embeddable = sequence.decoder().config().vocab;
        Self { sequence, unseen: vec![root], base, embeddable }
    }

    /// Draft a chain after the root.
    ///
    /// # Errors
    /// If a pass fails.
    pub fn chain(&mut self, order: &Order<'_>) -> Result<Chain> {
        let mut chain = Chain::default();
        self.base = self.sequence.len();
        let mut feed = std::mem::take(&mut self.unseen);
        self.base += feed.len();
        while chain.ids.len() < order.length && feed.iter().all(|&id| (id as usize) < self.embeddable) {
            let started = std::time::Instant::now();
            let pass = self.sequence.feed(&feed, &Taps::default())?;
            let last = pass.states.narrow(0, feed.len() - 1, 1)?;
            let logits = self.sequence.logits(&last)?;
            let (id, probability, distribution) = with_slice(&logits, |logits| {
                let logits = &logits[..order.vocab.min(logits.len())];
                match &order.sampler {
                    None => {
                        let facts = RowFacts::of(logits);
                        (facts.argmax, facts.log_probability(facts.max).exp(), None)
                    }
                    Some(sampler) => {
                        let q = sampler.distribution(logits);
                        let mut rng = sampler.rng(order.position + chain.ids.len(), Purpose::Draft);
                        let id = draw(&q, rand::RngExt::random(&mut rng));
                        (id, q.get(id as usize).copied().unwrap_or(0.0), Some(q))
                    }
                }
            })?;
            if feed.len() == 1 {
                chain.pass_ms.push(started.elapsed().as_secs_f64() * 1e3);
            }
            chain.ids.push(id);
            chain.probabilities.push(probability);
            chain.distributions.extend(distribution);
            if order.ends.contains(&id) {
                break;
            }
            feed = vec![id];
        }
        Ok(chain)
    }

    /// The verdict: the first `accepted` of `drafted` stand, and `root` follows them.
    pub fn commit(&mut self, drafted: &[u32], accepted: usize, root: u32) {
        // The last drafted token was never fed, so the cache holds the drafts before it.
        let seen = drafted.len().saturating_sub(1).min(accepted);
        self.sequence.truncate(self.base + seen);
        self.unseen = drafted[seen..accepted].to_vec();
        self.unseen.push(root);
    }
}
