//! A chart of the cost of loosening: facts kept against decode speedup.

use super::*;
use specreel_client::{
    chart::Plot,
    present::grid::{fitting, grid},
};

const SIZE: (usize, usize) = (60, 15);
const MIN_POINTS: usize = 3;

pub fn plot(summaries: &[Summary], title: &str) -> Plot {
    let point = |s: &Summary| Some((s.decode?, s.retention? * 100.0, clean(&s.system).into_owned()));
    Plot::new(title, "decode speedup (x)", "facts kept (%)", summaries.iter().filter_map(point))
        .y_at_most(100.0)
}

/// The plot as text with a legend, in this many columns of a terminal; `None` if it has too few points.
pub fn text(plot: &Plot, columns: Option<usize>) -> Option<String> {
    if plot.points().len() < MIN_POINTS {
        return None;
    }
    let mut legend: Vec<Vec<String>> = plot
        .symbols()
        .map(|(symbol, p)| {
            let front = if p.front { "front" } else { "" };
            vec![
                format!("{symbol} {}", p.label),
                format!("{:.2}x", p.x),
                format!("{:.1}%", p.y),
                front.into(),
            ]
        })
        .collect();
    let front = "Capital letters mark the Pareto front.\n";
    fitting(&mut legend, &[0, 2, 1, 3], columns);
    // Its axis takes some columns as well.
    let width = columns.map_or(SIZE.0, |columns| SIZE.0.min(columns.saturating_sub(12)));
    Some(chart::text(plot, width, SIZE.1) + "\n" + &grid(&legend) + front)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(system: &str, decode: Option<f64>, retention: Option<f64>) -> Summary {
        Summary { system: system.into(), decode, retention, ..Summary::default() }
    }

    #[test]
    fn the_front_is_marked_in_the_legend() {
        let all = [
            summary("plain", Some(1.0), Some(1.0)),
            summary("slow", Some(0.8), Some(0.9)),
            summary("fast", Some(1.5), Some(0.95)),
            summary("unknown", None, Some(1.0)),
        ];
        let plot = plot(&all, "title");
        assert_eq!(plot.points().len(), 3);
        let text = text(&plot, None).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        for line in
            ["A plain  1.00x  100.0%  front", "b slow   0.80x   90.0%", "C fast   1.50x   95.0%  front"]
        {
            assert!(lines.contains(&line), "{text}");
        }
    }

    #[test]
    fn two_points_are_not_a_chart() {
        let all = [summary("a", Some(1.0), Some(1.0)), summary("b", Some(1.0), Some(1.0))];
        assert_eq!(text(&plot(&all, ""), None), None);
    }
}
