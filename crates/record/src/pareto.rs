//! The Pareto front of points in two dimensions.

/// For each point, whether it is on the Pareto front, where larger is better in both dimensions: no other point is at least
/// as good in both and better in one. Equal points are on the front together. A point with a NaN is not.
pub fn front(points: &[(f64, f64)]) -> Vec<bool> {
    let beats = |a: (f64, f64), b: (f64, f64)| a.0 >= b.0 && a.1 >= b.1 && (a.0 > b.0 || a.1 > b.1);
    let real = |p: (f64, f64)| !p.0.is_nan() && !p.1.is_nan();
    points.iter().map(|&p| real(p) && !points.iter().any(|&other| beats(other, p))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_front_is_not_dominated() {
        let points = [(1.0, 100.0), (2.0, 90.0), (1.5, 80.0), (2.0, 85.0), (0.8, 100.0)];
        assert_eq!(front(&points), [true, true, false, false, false]);
    }

    #[test]
    fn equal_points_are_on_the_front_together() {
        assert_eq!(front(&[(1.0, 1.0), (1.0, 1.0)]), [true, true]);
        assert_eq!(front(&[(1.0, 1.0), (1.0, 2.0)]), [false, true]);
    }

    #[test]
    fn nan_is_not_on_the_front_and_dominates_nothing() {
        assert_eq!(front(&[(f64::NAN, 9.0), (1.0, 1.0), (9.0, f64::NAN)]), [false, true, false]);
        assert_eq!(front(&[]), Vec::<bool>::new());
    }
}
