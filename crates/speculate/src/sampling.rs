//! Distributions from logits: greedy, or by temperature, top-k, nucleus and min-p; and the facts about a row that acceptance rules use.
//! What changes the logits before, by the text so far, is in [`processors`](crate::processors).
//!
//! Only the first `vocab` logits count: a checkpoint's table is padded beyond its tokenizer's ids. Ties go to the lowest id.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

pub use specreel_model::decoder::{RowFacts, argmax, top_log_probabilities};

/// Entropy of the whole distribution, in nats.
pub(crate) fn entropy_full(logits: &[f32], facts: &RowFacts) -> f32 {
    let sum: f64 = logits
        .iter()
        .map(|&l| f64::from(facts.log_probability(l)))
        .filter(|log_p| log_p.is_finite())
        .map(|log_p| -log_p.exp() * log_p)
        .sum();
    sum as f32
}

/// KL(p, q) in nats, `p` being the distribution of a row of logits and `q` another's; infinite where `q` rules out what `p`
/// does not. Ids beyond the end of `q` have no probability in it.
pub fn divergence(logits: &[f32], facts: &RowFacts, q: &[f32]) -> f32 {
    let sum: f64 = logits
        .iter()
        .zip(endless(q))
        .map(|(&l, q)| (f64::from(facts.log_probability(l)), f64::from(q)))
        .filter(|(log_p, _)| *log_p > -40.0)
        .map(|(log_p, q)| log_p.exp() * (log_p - q.ln()))
        .sum();
    sum.max(0.0) as f32
}

/// How a token is drawn from a row of logits. Greedily, its other fields have no effect: the most likely token is never cut off.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampler {
    /// 0 = greedy.
    pub temperature: f32,
    /// Keep this many of the most likely tokens, and those as likely as the last of them; 0 = all.
    pub top_k: usize,
    /// Nucleus mass in (0, 1].
    pub top_p: f32,
    /// Keep the tokens of at least this share of the most likely one's probability, in [0, 1]; 0 = all.
    pub min_p: f32,
    pub seed: u64,
}

impl Default for Sampler {
    fn default() -> Self {
        Self::GREEDY
    }
}

impl Sampler {
    /// Takes the most likely token.
    pub const GREEDY: Self = Self { temperature: 0.0, top_k: 0, top_p: 1.0, min_p: 0.0, seed: 0 };

    /// True if nothing is random.
    pub fn is_greedy(&self) -> bool {
        self.temperature <= 0.0
    }

    /// The distribution of a row of logits: softmax(logits / temperature), then cut by top-k, by the nucleus and by min-p, each on what
    /// the one before it has left, renormalized (the order of transformers). Greedy: all mass on the argmax.
    pub fn distribution(&self, logits: &[f32]) -> Vec<f32> {
        let facts = RowFacts::of(logits);
        let mut p = vec![0f32; logits.len()];
        if self.is_greedy() {
            if let Some(best) = p.get_mut(facts.argmax as usize) {
                *best = 1.0;
            }
            return p;
        }
        let least = self.kept_logit(logits);
        let mut sum = 0f64;
        for (p, &l) in p.iter_mut().zip(logits) {
            if l >= least {
                *p = ((l - facts.max) / self.temperature).exp();
                sum += f64::from(*p);
            }
        }
        p.iter_mut().for_each(|p| *p = (f64::from(*p) / sum) as f32);
        if self.top_p < 1.0 {
            let (kept, mass) = nucleus(&p, self.top_p);
            let mut cut = vec![0f32; p.len()];
            kept.iter().for_each(|&id| cut[id] = (f64::from(p[id]) / mass) as f32);
            p = cut;
        }
        if self.min_p > 0.0 {
            let least = self.min_p * p.iter().copied().fold(0.0, f32::max);
            let mass: f64 = p.iter().filter(|p| **p >= least).map(|&p| f64::from(p)).sum();
            p.iter_mut().for_each(|p| *p = if *p >= least { (f64::from(*p) / mass) as f32 } else { 0.0 });
        }
        p
    }

    /// The logit below which top-k leaves nothing.
    fn kept_logit(&self, logits: &[f32]) -> f32 {
        if self.top_k == 0 || self.top_k >= logits.len() {
            return f32::NEG_INFINITY;
        }
        let mut order = logits.to_vec();
        *order.select_nth_unstable_by(self.top_k - 1, |a, b| b.total_cmp(a)).1
    }

    /// The target's token at output position `position`: the same for the same logits, seed and position, in every method.
    /// Autoregressive decoding and exact acceptance therefore write the same text at any temperature.
    pub fn token(&self, logits: &[f32], position: usize) -> u32 {
        if self.is_greedy() {
            return argmax(logits);
        }
        self.draw(&self.distribution(logits), position)
    }

    /// The target's token at output position `position`, of a row's distribution.
    pub fn draw(&self, distribution: &[f32], position: usize) -> u32 {
        draw(distribution, self.rng(position, Purpose::Token).random::<f64>())
    }

    /// True if a draft that was drawn from `q` passes at this output position: with probability min(1, p/q).
    pub(crate) fn accepts(&self, draft: u32, p: &[f32], q: &[f32], position: usize) -> bool {
        let at = |distribution: &[f32]| distribution.get(draft as usize).copied().unwrap_or(0.0);
        let u: f32 = self.rng(position, Purpose::Accept).random();
        at(q) > 0.0 && u * at(q) < at(p)
    }

    /// The token in place of a draft that [`Sampler::accepts`] rejected, from norm(max(p - q, 0)). Accepted drafts and
    /// replacements together have the distribution `p`.
    pub(crate) fn replacement(&self, p: &[f32], q: &[f32], position: usize) -> u32 {
        let mut rng = self.rng(position, Purpose::Accept);
        // The first number of this stream rejected the draft.
        let _: f32 = rng.random();
        draw(&residual(p, q), rng.random())
    }

    /// The randomness of one output position for one purpose.
    pub fn rng(&self, position: usize, purpose: Purpose) -> ChaCha8Rng {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        rng.set_stream((position as u64) << 2 | purpose as u64);
        rng
    }
}

/// Number of most likely tokens that are sorted first; more are sorted if their mass does not reach the nucleus.
const LIKELIEST: usize = 64;

/// The smallest set of most likely ids whose mass reaches `top_p`, most likely first (lowest id first where tied), and that
/// mass. The vocabulary is sorted only as far as the nucleus reaches.
fn nucleus(p: &[f32], top_p: f32) -> (Vec<usize>, f64) {
    let by = |a: &usize, b: &usize| p[*b].total_cmp(&p[*a]).then(a.cmp(b));
    let mut order: Vec<usize> = (0..p.len()).collect();
    let (mut sorted, mut mass, mut portion) = (0, 0f64, LIKELIEST);
    while sorted < order.len() {
        let rest = &mut order[sorted..];
        let count = portion.min(rest.len());
        if count < rest.len() {
            rest.select_nth_unstable_by(count - 1, by);
        }
        rest[..count].sort_unstable_by(by);
        for i in sorted..sorted + count {
            mass += f64::from(p[order[i]]);
            if mass >= f64::from(top_p) {
                order.truncate(i + 1);
                return (order, mass);
            }
        }
        sorted += count;
        portion *= 4;
    }
    (order, mass)
}

/// The purpose of a random number; each has its own stream.
#[derive(Clone, Copy, Debug)]
pub enum Purpose {
    /// The target's token.
    Token = 0,
    /// The drafter's token.
    Draft = 1,
    /// Accepting a draft, and the token in its place.
    Accept = 2,
}

/// The id at which the cumulated probability passes `u` in [0, 1); the last possible id where rounding leaves a gap.
pub fn draw(p: &[f32], u: f64) -> u32 {
    let mut mass = 0f64;
    let mut last = 0;
    for (id, &p) in p.iter().enumerate() {
        if p > 0.0 {
            mass += f64::from(p);
            last = id;
            if u < mass {
                break;
            }
        }
    }
    last as u32
}

/// norm(max(p - q, 0)); p itself where nothing is left. Ids beyond the end of `q` have no probability in it.
pub fn residual(p: &[f32], q: &[f32]) -> Vec<f32> {
    let rest: Vec<f32> = p.iter().zip(endless(q)).map(|(p, q)| (p - q).max(0.0)).collect();
    let sum: f64 = rest.iter().map(|&r| f64::from(r)).sum();
    if sum <= 0.0 {
        return p.to_vec();
    }
    rest.into_iter().map(|r| (f64::from(r) / sum) as f32).collect()
}

/// A distribution continued with zeros: a drafter's table may be narrower than the target's.
fn endless(q: &[f32]) -> impl Iterator<Item = f32> + '_ {
    q.iter().copied().chain(std::iter::repeat(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logits(p: &[f32]) -> Vec<f32> {
        p.iter().map(|p| p.ln()).collect()
    }

    #[test]
    fn entropy_follows_fly() {
        let facts = RowFacts::of(&logits(&[0.5, 0.25, 0.25]));
        assert!((facts.entropy_top3() - 1.0397).abs() < 1e-4);
        let uniform = logits(&[0.001; 1000]);
        let facts = RowFacts::of(&uniform);
        assert!((facts.entropy_top3() - 0.0207).abs() < 1e-4);
        assert!((entropy_full(&uniform, &facts) - 1000f32.ln()).abs() < 1e-3);
        assert_eq!(RowFacts::of(&[0.0]).entropy_top3(), 0.0);
    }

    #[test]
    fn divergence_is_that_of_the_textbook() {
        let row = logits(&[0.5, 0.25, 0.25]);
        let facts = RowFacts::of(&row);
        assert!(divergence(&row, &facts, &[0.5, 0.25, 0.25]) < 1e-6);
        let exact = 0.5 * (0.5f64 / 0.25).ln() + 0.25 * (0.25f64 / 0.25).ln() + 0.25 * (0.25f64 / 0.5).ln();
        assert!((f64::from(divergence(&row, &facts, &[0.25, 0.25, 0.5])) - exact).abs() < 1e-6);
        assert!(divergence(&row, &facts, &[1.0, 0.0, 0.0]).is_infinite());
        // A narrower table rules out the ids beyond its end.
        assert!(divergence(&row, &facts, &[0.5, 0.5]).is_infinite());
        let narrow = logits(&[0.5, 0.5, 0.0]);
        assert!(divergence(&narrow, &RowFacts::of(&narrow), &[0.5, 0.5]) < 1e-6);
    }

    #[test]
    fn ties_go_to_the_lowest_id() {
        assert_eq!(argmax(&[1.0, 3.0, 3.0]), 1);
        assert_eq!(RowFacts::of(&[1.0, 3.0, 3.0]).argmax, 1);
        let facts = RowFacts::of(&[1.0, 3.0, 3.0]);
        let top: Vec<u32> =
            top_log_probabilities(&[1.0, 3.0, 3.0], &facts, 2).into_iter().map(|t| t.0).collect();
        assert_eq!(top, [1, 2]);
        assert_eq!(top_log_probabilities(&[1.0], &facts, 9).len(), 1);
    }

    #[test]
    fn the_largest_are_found_wherever_they_stand() {
        for n in [1usize, 2, 7, 31, 32, 33, 200] {
            for seed in 0..20u64 {
                let mut rng = ChaCha8Rng::seed_from_u64(seed);
                // Few different values, so that ties are common.
                let row: Vec<f32> = (0..n).map(|_| (rng.random::<f32>() * 40.0).floor() - 30.0).collect();
                let mut sorted: Vec<usize> = (0..n).collect();
                sorted.sort_by(|&a, &b| row[b].total_cmp(&row[a]).then(a.cmp(&b)));
                let facts = RowFacts::of(&row);
                assert_eq!((facts.argmax, argmax(&row)), (sorted[0] as u32, sorted[0] as u32));
                let top: Vec<f32> = sorted.iter().take(3).map(|&i| row[i]).collect();
                assert_eq!(facts.top3[..top.len()], top);
            }
        }
        assert_eq!(argmax(&[]), 0);
    }

    #[test]
    fn nucleus_keeps_the_smallest_sufficient_set() {
        let sampler = Sampler { temperature: 1.0, top_p: 0.7, ..Sampler::GREEDY };
        let p = sampler.distribution(&logits(&[0.1, 0.5, 0.3, 0.1]));
        assert_eq!((p[0], p[3]), (0.0, 0.0));
        assert!((p[1] - 0.625).abs() < 1e-6 && (p[2] - 0.375).abs() < 1e-6);
    }

    fn sorted_nucleus(p: &[f32], top_p: f32) -> (Vec<usize>, f64) {
        let mut order: Vec<usize> = (0..p.len()).collect();
        order.sort_by(|&a, &b| p[b].total_cmp(&p[a]).then(a.cmp(&b)));
        let mut mass = 0f64;
        let reached = order.iter().position(|&id| {
            mass += f64::from(p[id]);
            mass >= f64::from(top_p)
        });
        order.truncate(reached.map_or(order.len(), |rank| rank + 1));
        (order, mass)
    }

    #[test]
    fn the_nucleus_is_that_of_a_sorted_vocabulary() {
        let mut longest = 0;
        for n in [0usize, 1, 5, 63, 64, 65, 321, 1000] {
            for seed in 0..12u64 {
                let mut rng = ChaCha8Rng::seed_from_u64(seed);
                // Few different values, so that ties are common; sharp and flat ones.
                let weight = |rng: &mut ChaCha8Rng| 1.0 + (rng.random::<f32>() * 9.0).floor();
                let p: Vec<f32> = (0..n).map(|_| weight(&mut rng).powi(seed as i32 % 5)).collect();
                let sum: f32 = p.iter().sum();
                let p: Vec<f32> = p.iter().map(|p| p / sum).collect();
                for top_p in [0.0, 0.1, 0.5, 0.9, 0.999, 1.1] {
                    let got = nucleus(&p, top_p);
                    assert_eq!(got, sorted_nucleus(&p, top_p), "{n} {seed} {top_p}");
                    longest = longest.max(got.0.len());
                }
            }
        }
        assert_eq!(longest, 1000);
    }

    #[test]
    fn extreme_temperatures_stay_finite() {
        for temperature in [1e-4, 1e-2, 100.0] {
            let sampler = Sampler { temperature, ..Sampler::GREEDY };
            let p = sampler.distribution(&[-50.0, 0.0, 80.0]);
            assert!((p.iter().sum::<f32>() - 1.0).abs() < 1e-5);
        }
    }

    #[test]
    fn draws_follow_the_distribution() {
        let p = [0.2f32, 0.0, 0.5, 0.3];
        let mut counts = [0f64; 4];
        let n = 10_000;
        (0..n).for_each(|i| counts[draw(&p, (i as f64 + 0.5) / n as f64) as usize] += 1.0);
        for (c, p) in counts.iter().zip(p) {
            assert!((c / n as f64 - f64::from(p)).abs() < 1e-3);
        }
        assert_eq!(draw(&p, 0.999_999_999), 3);
    }

    #[test]
    fn the_residual_is_a_distribution() {
        let r = residual(&[0.5, 0.5, 0.0], &[0.2, 0.7, 0.1]);
        assert_eq!(r, [1.0, 0.0, 0.0]);
        assert_eq!(residual(&[0.5, 0.5], &[0.5, 0.5]), [0.5, 0.5]);
        // q's table lacks the target's last two tokens, and p's lacks q's last one.
        assert_eq!(residual(&[0.5, 0.25, 0.25], &[1.0]), [0.0, 0.5, 0.5]);
        assert_eq!(residual(&[0.5, 0.5], &[0.25, 0.25, 0.5]), [0.5, 0.5]);
    }
}
