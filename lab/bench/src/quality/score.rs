//! Comparison of a model's predictions of a text with the reference's.

use serde::Serialize;

use crate::figure::{Figure, Part};

/// One predicted token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Prediction {
    /// Kullback-Leibler divergence of the model's distribution from the reference's, KL(reference || model), in nats.
    divergence: f64,
    /// True if both have the same most likely token.
    agrees: bool,
    /// Negative log-probability of the token under the model, in nats, and under the reference.
    loss: [f64; 2],
}

impl Prediction {
    /// Compare the model's logits with the reference's, before the token `next`.
    pub(super) fn of(reference: &[f32], logits: &[f32], next: u32) -> Self {
        let (theirs, ours) = (log_sum(reference), log_sum(logits));
        let mut divergence = 0.0;
        for (&reference, &logit) in reference.iter().zip(logits) {
            let log_p = f64::from(reference) - theirs;
            divergence += log_p.exp() * (log_p - (f64::from(logit) - ours));
        }
        let loss = |logits: &[f32], sum: f64| sum - f64::from(logits[next as usize]);
        let loss = [loss(logits, ours), loss(reference, theirs)];
        Self { divergence, agrees: largest(reference) == largest(logits), loss }
    }
}

fn log_sum(logits: &[f32]) -> f64 {
    let max = f64::from(logits.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    max + logits.iter().map(|&logit| (f64::from(logit) - max).exp()).sum::<f64>().ln()
}

/// The index of the largest value, the lowest where tied.
fn largest(values: &[f32]) -> usize {
    (0..values.len()).rev().max_by(|&a, &b| values[a].total_cmp(&values[b])).unwrap_or(0)
}

/// Figures over all predicted tokens of a text, with 95 % intervals by bootstrap over tokens.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Scores {
    pub(super) tokens: usize,
    /// Mean of the divergences.
    pub(super) kl: Figure,
    /// The 99th percentile of the divergences.
    pub(super) kl_p99: f64,
    pub(super) kl_max: f64,
    /// Share of the tokens before which both have the same most likely token.
    pub(super) same_top: Figure,
    pub(super) perplexity: Figure,
    pub(super) reference_perplexity: f64,
}

impl Scores {
    /// `None` without predictions.
    pub(super) fn of(predictions: &[Prediction]) -> Option<Self> {
        let mean = |value: &dyn Fn(&Prediction) -> f64| {
            let parts: Vec<_> = predictions.iter().map(|p| Some(Part::Ratio(value(p), 1.0))).collect();
            Figure::of(&parts)
        };
        let mut divergences: Vec<f64> = predictions.iter().map(|p| p.divergence).collect();
        divergences.sort_by(f64::total_cmp);
        // The nearest rank.
        let rank = (0.99 * divergences.len() as f64).ceil() as usize;
        let reference_loss = predictions.iter().map(|p| p.loss[1]).sum::<f64>() / predictions.len() as f64;
        Some(Self {
            tokens: predictions.len(),
            kl: mean(&|p| p.divergence)?,
            kl_p99: *divergences.get(rank.checked_sub(1)?)?,
            kl_max: *divergences.last()?,
            same_top: mean(&|p| f64::from(u8::from(p.agrees)))?,
            perplexity: mean(&|p| p.loss[0])?.map(f64::exp),
            reference_perplexity: reference_loss.exp(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prediction_is_compared_with_the_reference() {
        // Probabilities of 1/2, 1/4, 1/4 and 1/4, 1/2, 1/4; a constant in the logits changes nothing.
        let logits = |p: [f32; 3], shift: f32| p.map(|p| p.ln() + shift);
        let (a, b) = (logits([0.5, 0.25, 0.25], 3.0), logits([0.25, 0.5, 0.25], -7.0));
        let got = Prediction::of(&a, &b, 0);
        let want = 0.5 * 2f64.ln() - 0.25 * 2f64.ln();
        assert!((got.divergence - want).abs() < 1e-6, "{got:?}");
        assert!((got.loss[0] - 4f64.ln()).abs() < 1e-6 && (got.loss[1] - 2f64.ln()).abs() < 1e-6);
        assert!(!got.agrees);
        let same = Prediction::of(&a, &a, 2);
        assert_eq!((same.divergence, same.agrees, same.loss[0]), (0.0, true, same.loss[1]));
        // Of tied logits the first is the most likely.
        assert!(Prediction::of(&[1.0, 1.0, 0.0], &[2.0, 1.0, 1.0], 0).agrees);
    }

    #[test]
    fn scores_are_means_and_percentiles() {
        let prediction = |n: u32| Prediction {
            divergence: f64::from(n),
            agrees: n.is_multiple_of(4),
            loss: [3f64.ln(), 2f64.ln()],
        };
        let predictions: Vec<Prediction> = (1..=200).map(prediction).collect();
        let scores = Scores::of(&predictions).unwrap();
        assert_eq!(
            (scores.tokens, scores.kl.value, scores.kl_p99, scores.kl_max),
            (200, 100.5, 198.0, 200.0)
        );
        assert_eq!(scores.same_top.value, 0.25);
        let (low, high) = scores.kl.interval.unwrap();
        assert!(low < 100.5 && 100.5 < high && high - low < 40.0, "{low} {high}");
        assert!(
            (scores.perplexity.value - 3.0).abs() < 1e-9 && (scores.reference_perplexity - 2.0).abs() < 1e-9
        );
        assert_eq!(Scores::of(&[]), None);
    }
}
