//! Whether two rows are in a paper's order.

use serde::{Deserialize, Serialize};

use super::figure::Figure;

/// How an order of ours compares with the paper's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// The same, beyond what other clips would change.
    Agrees,
    /// Other clips may turn it round: the 95 % interval of the difference includes 0, or there are too few clips for one.
    Noise,
    /// The opposite, beyond what other clips would change.
    Disagrees,
}

/// Two rows of which the paper puts one above the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Pair {
    pub(crate) above: usize,
    pub(crate) below: usize,
    pub(crate) order: Order,
    /// True if our values, regardless of their intervals, are in the paper's order; `None` if they are equal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) by_value: Option<bool>,
}

/// All pairs of rows that differ in the paper by more than a tie and are measured here. A larger value is above.
pub fn pairs(
    paper: &[Option<f64>],
    ours: &[Option<&Figure>],
    is_tie: impl Fn(f64, f64) -> bool,
) -> Vec<Pair> {
    let rows: Vec<(usize, f64, &Figure)> = paper
        .iter()
        .zip(ours)
        .enumerate()
        .filter_map(|(row, (paper, ours))| Some((row, (*paper)?, (*ours)?)))
        .collect();
    let mut pairs = Vec::new();
    for &(above, upper, ours) in &rows {
        let ranked = |lower: f64| lower < upper && !is_tie(upper, lower);
        for &(below, _, other) in rows.iter().filter(|(_, lower, _)| ranked(*lower)) {
            let order = match ours.minus(other) {
                Some((low, _)) if low > 0.0 => Order::Agrees,
                Some((_, high)) if high < 0.0 => Order::Disagrees,
                _ => Order::Noise,
            };
            let by_value = (ours.value != other.value).then_some(ours.value > other.value);
            pairs.push(Pair { above, below, order, by_value });
        }
    }
    pairs
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Agreement {
    pub(crate) agree: usize,
    pub(crate) noise: usize,
    pub(crate) disagree: usize,
    /// Kendall's tau of our values against the paper's, from -1 to 1; `None` without pairs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) kendall: Option<f64>,
}

impl Agreement {
    pub fn of(pairs: &[Pair]) -> Agreement {
        let count = |order| pairs.iter().filter(|pair| pair.order == order).count();
        let signs = pairs.iter().map(|pair| pair.by_value.map_or(0.0, |same| if same { 1.0 } else { -1.0 }));
        let sum: f64 = signs.sum();
        Agreement {
            agree: count(Order::Agrees),
            noise: count(Order::Noise),
            disagree: count(Order::Disagrees),
            kendall: (!pairs.is_empty()).then(|| sum / pairs.len() as f64),
        }
    }

    pub(crate) fn pairs(&self) -> usize {
        self.agree + self.noise + self.disagree
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A figure that is this value on every clip of a bootstrap, give or take `spread`.
    fn figure(value: f64, spread: f64) -> Figure {
        let rounds = (0..100).map(|n| value + spread * (f64::from(n) / 49.5 - 1.0)).collect();
        Figure::new(value, rounds)
    }

    #[test]
    fn an_order_agrees_disagrees_or_is_noise() {
        use Order::{Agrees, Disagrees, Noise};
        for (upper, lower, spread, order, by_value) in [
            (2.0, 1.0, 0.1, Agrees, Some(true)),
            (1.0, 2.0, 0.1, Disagrees, Some(false)),
            (1.0, 1.0, 0.1, Noise, None),
        ] {
            let (a, b) = (figure(upper, spread), figure(lower, spread));
            let pairs = pairs(&[Some(5.0), Some(4.0)], &[Some(&a), Some(&b)], never);
            assert_eq!(pairs, [Pair { above: 0, below: 1, order, by_value }], "{upper} {lower}");
        }
        // Their difference changes its sign with the clips.
        let (a, b) = (figure(1.1, 1.0), figure(1.0, -1.0));
        assert_eq!(pairs(&[Some(5.0), Some(4.0)], &[Some(&a), Some(&b)], never)[0].order, Noise);
        // Both vary with the clips, but together: the difference does not.
        let (a, b) = (figure(1.1, 1.0), figure(1.0, 1.0));
        assert_eq!(pairs(&[Some(5.0), Some(4.0)], &[Some(&a), Some(&b)], never)[0].order, Agrees);
        // Too few clips for an interval.
        let (a, b) = (Figure::new(9.0, Vec::new()), Figure::new(1.0, Vec::new()));
        let pair = pairs(&[Some(5.0), Some(4.0)], &[Some(&a), Some(&b)], never)[0];
        assert_eq!((pair.order, pair.by_value), (Noise, Some(true)));
    }

    fn never(_: f64, _: f64) -> bool {
        false
    }

    #[test]
    fn ties_of_the_paper_are_no_pairs() {
        let (a, b) = (figure(2.0, 0.1), figure(1.0, 0.1));
        let is_tie = |upper: f64, lower: f64| upper - lower < 0.5;
        let all = |upper, lower| pairs(&[Some(upper), Some(lower)], &[Some(&a), Some(&b)], is_tie).len();
        assert_eq!((all(5.0, 4.6), all(5.0, 4.4)), (0, 1));
    }

    #[test]
    fn rows_that_are_equal_in_the_paper_or_unknown_are_no_pair() {
        let one = figure(1.0, 0.1);
        let all = [Some(&one), Some(&one), Some(&one), None];
        let pairs = pairs(&[Some(3.0), Some(3.0), None, Some(1.0)], &all, never);
        assert_eq!(pairs, []);
        assert_eq!(Agreement::of(&pairs), Agreement::default());
    }

    #[test]
    fn pairs_are_counted_in_any_order_of_rows() {
        let [low, middle, high] = [1.0, 2.0, 3.0].map(|value| figure(value, 0.1));
        let paper = [Some(20.0), Some(30.0), Some(10.0)];
        let same = Agreement::of(&pairs(&paper, &[Some(&middle), Some(&high), Some(&low)], never));
        assert_eq!((same.agree, same.noise, same.disagree, same.kendall), (3, 0, 0, Some(1.0)));
        let turned = Agreement::of(&pairs(&paper, &[Some(&middle), Some(&low), Some(&high)], never));
        assert_eq!((turned.agree, turned.noise, turned.disagree, turned.kendall), (0, 0, 3, Some(-1.0)));
        let mixed = Agreement::of(&pairs(&paper, &[Some(&high), Some(&middle), Some(&low)], never));
        assert_eq!((mixed.agree, mixed.disagree, mixed.pairs()), (2, 1, 3));
        assert!((mixed.kendall.unwrap() - 1.0 / 3.0).abs() < 1e-12);
    }
}
