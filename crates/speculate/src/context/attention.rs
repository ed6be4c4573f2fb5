//! SpecVLM's two stages: the tokens with most attention from the text, then an even spread of the rest.

use super::evenly;

/// Stage one keeps the fewest tokens whose scores add up to `mass` of all, as far as `budget` goes; stage two spreads the
/// rest of the budget evenly over the others, in their order. Ascending.
pub(crate) fn two_stage(scores: &[f32], budget: usize, mass: f64) -> Vec<usize> {
    let budget = budget.min(scores.len());
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
    let wanted = mass * scores.iter().map(|&s| f64::from(s)).sum::<f64>();
    let (mut sum, mut first) = (0.0, 0);
    // A sum that is short of the wanted share by rounding alone has reached it.
    while first < budget && sum < wanted * (1.0 - 1e-6) {
        sum += f64::from(scores[order[first]]);
        first += 1;
    }
    let mut kept = order[..first].to_vec();
    let mut rest = order[first..].to_vec();
    rest.sort_unstable();
    kept.extend(evenly(rest.len(), budget - first).into_iter().map(|i| rest[i]));
    kept.sort_unstable();
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vector_of_the_reference() {
        let scores = [0.5, 0.2, 0.1, 0.1, 0.05, 0.05, 0.0, 0.0, 0.0, 0.0];
        assert_eq!(two_stage(&scores, 5, 0.6), [0, 1, 2, 5, 9]);
    }

    #[test]
    fn the_borders() {
        let scores = [0.1f32, 0.4, 0.3, 0.2];
        assert_eq!(two_stage(&scores, 2, 1.0), [1, 2]);
        assert_eq!(two_stage(&scores, 2, 0.0), [0, 3]);
        assert!(two_stage(&scores, 0, 0.5).is_empty() && two_stage(&[], 3, 0.5).is_empty());
        assert_eq!(two_stage(&scores, 9, 0.5), [0, 1, 2, 3]);
        assert_eq!(two_stage(&[0.0; 4], 2, 0.5), [0, 3]);
    }
}
