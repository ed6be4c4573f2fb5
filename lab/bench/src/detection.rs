//! How well a value, or a yes/no decision, separates positive cases from negative ones.

use serde::{Deserialize, Serialize};

/// The area under the receiver operating characteristic curve: how often a positive case has a larger value than a negative
/// one, ties counting half. 0.5 is chance, 1 is perfect, 0 is perfectly inverted. Cases are (value, is positive); NaN values
/// are left out. `None` if there are no positive or no negative cases.
pub fn area_under_curve(cases: &[(f64, bool)]) -> Option<f64> {
    let mut cases: Vec<(f64, bool)> = cases.iter().copied().filter(|(value, _)| !value.is_nan()).collect();
    cases.sort_by(|a, b| a.0.total_cmp(&b.0));
    let positives = cases.iter().filter(|(_, matters)| *matters).count() as f64;
    let negatives = cases.len() as f64 - positives;
    if positives == 0.0 || negatives == 0.0 {
        return None;
    }
    // Cases of one value share the middle of their ranks (from 1).
    let (mut before, mut ranks) = (0.0, 0.0);
    for tied in cases.chunk_by(|a, b| a.0 == b.0) {
        let middle = before + (tied.len() as f64 + 1.0) / 2.0;
        ranks += middle * tied.iter().filter(|(_, matters)| *matters).count() as f64;
        before += tied.len() as f64;
    }
    Some((ranks - positives * (positives + 1.0) / 2.0) / (positives * negatives))
}

/// Counts of a yes/no decision against the truth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Detection {
    pub matter: usize,
    /// Cases decided yes.
    pub flagged: usize,
    /// Positive cases decided yes.
    pub hits: usize,
}

impl Detection {
    pub fn add(&mut self, flagged: bool, matters: bool) {
        self.matter += usize::from(matters);
        self.flagged += usize::from(flagged);
        self.hits += usize::from(flagged && matters);
    }

    /// Share of the yes decisions that are positive, 0 to 1; `None` without a yes.
    pub fn precision(&self) -> Option<f64> {
        (self.flagged > 0).then(|| self.hits as f64 / self.flagged as f64)
    }

    /// Share of the positive cases decided yes, 0 to 1; `None` without a positive case.
    pub fn recall(&self) -> Option<f64> {
        (self.matter > 0).then(|| self.hits as f64 / self.matter as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_area_counts_pairs_in_order() {
        let perfect = [(1.0, false), (2.0, false), (3.0, true)];
        assert_eq!(area_under_curve(&perfect), Some(1.0));
        assert_eq!(area_under_curve(&perfect.map(|(v, m)| (-v, m))), Some(0.0));
        // Of the four pairs three are in order.
        let mixed = [(1.0, false), (2.0, true), (3.0, false), (4.0, true)];
        assert_eq!(area_under_curve(&mixed), Some(0.75));
    }

    #[test]
    fn equal_values_count_half() {
        assert_eq!(area_under_curve(&[(1.0, false), (1.0, true)]), Some(0.5));
        assert_eq!(area_under_curve(&[(0.0, false), (1.0, false), (1.0, true)]), Some(0.75));
        // Both zeros are one value.
        assert_eq!(area_under_curve(&[(-0.0, true), (0.0, false)]), Some(0.5));
    }

    #[test]
    fn infinite_values_count_and_nan_does_not() {
        assert_eq!(area_under_curve(&[(f64::INFINITY, true), (1.0, false)]), Some(1.0));
        assert_eq!(area_under_curve(&[(f64::NAN, true), (1.0, false)]), None);
        assert_eq!(area_under_curve(&[(1.0, true)]), None);
        assert_eq!(area_under_curve(&[]), None);
    }

    #[test]
    fn precision_and_recall_are_shares_of_hits() {
        let mut seen = Detection::default();
        assert_eq!((seen.precision(), seen.recall()), (None, None));
        for (flagged, matters) in [(true, true), (true, false), (false, true), (true, true), (false, false)] {
            seen.add(flagged, matters);
        }
        assert_eq!(seen, Detection { matter: 3, flagged: 3, hits: 2 });
        assert_eq!(seen.precision(), Some(2.0 / 3.0));
        assert_eq!(seen.recall(), seen.precision());
    }
}
