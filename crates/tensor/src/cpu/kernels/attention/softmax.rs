//! A softmax over segments of scores, which come one after the other.

use super::super::{exp, softmax_unnormalized};

/// The softmax of several queries. Weights are relative to the largest score so far: `exp(score - peak)`.
#[derive(Default)]
pub struct OnlineSoftmax {
    peaks: Vec<f32>,
    totals: Vec<f32>,
    keep: Vec<f32>,
}

impl OnlineSoftmax {
    /// Start with so many queries.
    pub fn reset(&mut self, queries: usize) {
        for (values, value) in
            [(&mut self.peaks, f32::NEG_INFINITY), (&mut self.totals, 0.0), (&mut self.keep, 0.0)]
        {
            values.clear();
            values.resize(queries, value);
        }
    }

    /// Turn a query's next scores into weights, in place.
    pub fn weigh(&mut self, query: usize, scores: &mut [f32]) {
        let before = self.peaks[query];
        let (peak, sum) = softmax_unnormalized(scores, before);
        let keep = match before {
            _ if peak == before => 1.0,
            f32::NEG_INFINITY => 0.0,
            _ => exp(before - peak),
        };
        self.peaks[query] = peak;
        self.totals[query] = self.totals[query] * keep + sum;
        self.keep[query] = keep;
    }

    /// The factors for the queries' sums, which apply before the sums of the last weights are added.
    pub fn keep(&self) -> &[f32] {
        &self.keep
    }

    /// The sum of a query's weights.
    pub fn total(&self, query: usize) -> f32 {
        self.totals[query]
    }
}
