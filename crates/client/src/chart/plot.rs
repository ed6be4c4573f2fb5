//! Points on two axes with their Pareto front.
//!
//! Every point has a [`symbol`], so that the plot is readable without color: points on the front are capital letters and solid, the
//! others lower-case letters and hollow.

use super::Scale;
use specreel_record::pareto;

/// Points on two axes, larger being better on both.
#[derive(Clone, Debug, PartialEq)]
pub struct Plot {
    pub title: String,
    /// What x is, with its unit.
    pub x: String,
    /// What y is, with its unit.
    pub y: String,
    points: Vec<Point>,
    most: f64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    pub x: f64,
    pub y: f64,
    pub label: String,
    pub front: bool,
}

impl Plot {
    /// A plot of (x, y, label). Points that are not finite are left out.
    pub fn new(title: &str, x: &str, y: &str, points: impl IntoIterator<Item = (f64, f64, String)>) -> Self {
        let points: Vec<(f64, f64, String)> =
            points.into_iter().filter(|p| p.0.is_finite() && p.1.is_finite()).collect();
        let front = pareto::front(&points.iter().map(|p| (p.0, p.1)).collect::<Vec<_>>());
        let points = points
            .into_iter()
            .zip(front)
            .map(|((x, y, label), front)| Point { x, y, label, front })
            .collect();
        Self { title: title.into(), x: x.into(), y: y.into(), points, most: f64::INFINITY }
    }

    /// The same with a maximum of y, a round number, such as 100 for percentages.
    pub fn y_at_most(self, most: f64) -> Self {
        Self { most, ..self }
    }

    pub fn points(&self) -> &[Point] {
        &self.points
    }

    pub fn symbols(&self) -> impl Iterator<Item = (char, &Point)> {
        self.points.iter().enumerate().map(|(index, point)| (symbol(index, point.front), point))
    }

    pub fn scales(&self) -> (Scale, Scale) {
        let across = Scale::covering(self.points.iter().map(|p| p.x));
        (across, Scale::covering_up_to(self.most, self.points.iter().map(|p| p.y)))
    }

    /// The front as steps from its upper left to its lower right: all corners, in order.
    pub fn stairs(&self) -> Vec<(f64, f64)> {
        let mut front: Vec<(f64, f64)> = self.points.iter().filter(|p| p.front).map(|p| (p.x, p.y)).collect();
        front.sort_by(|a, b| a.0.total_cmp(&b.0));
        front.dedup();
        let mut corners = Vec::new();
        for (index, &(x, y)) in front.iter().enumerate() {
            corners.push((x, y));
            if let Some(&(_, below)) = front.get(index + 1) {
                corners.push((x, below));
            }
        }
        corners
    }
}

/// The letter of a point by its number; beyond the alphabet all are `#` on the front and `+` elsewhere.
pub fn symbol(index: usize, front: bool) -> char {
    match (u8::try_from(index).ok().filter(|i| *i < 26), front) {
        (Some(index), true) => (b'A' + index) as char,
        (Some(index), false) => (b'a' + index) as char,
        (None, true) => '#',
        (None, false) => '+',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot() -> Plot {
        let points = [(1.0, 100.0, "plain"), (2.0, 90.0, "fast"), (1.5, 80.0, "bad"), (3.0, 60.0, "<loose>")];
        Plot::new("Facts", "speedup", "kept", points.map(|(x, y, label)| (x, y, label.into())))
    }

    #[test]
    fn the_front_is_marked_and_its_stairs_go_down() {
        let plot = plot();
        assert_eq!(plot.symbols().map(|s| s.0).collect::<String>(), "ABcD");
        assert_eq!(plot.stairs(), [(1.0, 100.0), (1.0, 90.0), (2.0, 90.0), (2.0, 60.0), (3.0, 60.0)]);
    }

    #[test]
    fn points_that_are_not_finite_are_left_out() {
        let plot = Plot::new("", "", "", [(f64::NAN, 1.0, "a".into()), (1.0, f64::INFINITY, "b".into())]);
        assert!(plot.points().is_empty() && plot.stairs().is_empty());
    }

    #[test]
    fn symbols_end_with_the_alphabet() {
        assert_eq!((symbol(0, true), symbol(25, false)), ('A', 'z'));
        assert_eq!((symbol(26, true), symbol(999, false)), ('#', '+'));
    }
}
