//! Charts of points.

use ratatui::layout::Constraint::{Length, Min, Ratio};
use ratatui::layout::{Layout, Rect};
use ratatui::widgets::{Axis, Chart, Dataset, LegendPosition};
use ratatui::{symbols::Marker, text::Line};

use super::Frame;
use crate::look::{Role, Theme};
use specreel_client::chart::Scale;

/// Draw a chart of points on their scales, with the title of the y axis above it, where no point can be hidden.
pub fn chart(
    datasets: Vec<Dataset<'_>>,
    (across, x): (&Scale, &str),
    (up, y): (&Scale, &str),
    legend: Option<LegendPosition>,
    theme: &Theme,
    frame: &mut Frame<'_>,
    area: Rect,
) {
    let dim = theme.style(Role::Dim);
    let axis = |scale: &Scale| {
        let ticks = scale.ticks();
        let bounds = [ticks.first(), ticks.last()].map(|tick| tick.map_or(0.0, |tick| scale.along(*tick)));
        let labels: Vec<_> = ticks.into_iter().map(|tick| scale.words(tick)).collect();
        Axis::default().bounds(bounds).labels(labels).style(dim)
    };
    let [title, area] = area.layout(&Layout::vertical([Length(1), Min(0)]));
    frame.render_widget(Line::styled(y.to_owned(), dim), title);
    let half = (Ratio(1, 2), Ratio(1, 2));
    let chart = Chart::new(datasets)
        .x_axis(axis(across).title(x.to_owned()))
        .y_axis(axis(up))
        .legend_position(legend)
        .hidden_legend_constraints(half);
    frame.render_widget(chart, area);
}

pub fn line_marker(model_is_ascii: bool) -> Marker {
    if model_is_ascii { Marker::Dot } else { Marker::Braille }
}
