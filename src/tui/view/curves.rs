//! A sweep over which fidelity does not change: speedup and accepted drafts against the parameter.

use super::compare::LaneRun;
use super::*;

/// Columns from which on both charts stand side by side, and rows from which on they are one above the other.
const WIDE: u16 = 64;
const TALL: u16 = 14;

/// A line of points, x ascending, and what y is.
struct Curve {
    y: &'static str,
    points: Vec<(f64, f64)>,
}

/// Speedup and accepted drafts over the values of a parameter, as far as the runs are over.
fn curves(lanes: &[LaneRun<'_>]) -> [Curve; 2] {
    let points = |y: fn(&LaneRun<'_>) -> Option<f64>| {
        let over =
            lanes.iter().filter(|one| one.run.is_some_and(|run| run.is_over() && run.stats().steps > 0));
        let mut points: Vec<_> = over.filter_map(|one| Some((one.lane.value?, y(one)?))).collect();
        points.retain(|(x, y)| x.is_finite() && y.is_finite());
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        points
    };
    [
        Curve { y: "speedup", points: points(|one| one.speedup) },
        Curve { y: "accepted drafts per step (tau)", points: points(|one| Some(one.run?.stats().tau)) },
    ]
}

pub(super) fn draw(
    model: &Model,
    lanes: &[LaneRun<'_>],
    parameter: &str,
    theme: &Theme,
    frame: &mut Frame<'_>,
    area: Rect,
) {
    let mut shown = Vec::from(curves(lanes));
    shown.retain(|curve| !curve.points.is_empty());
    let [note, area] = area.layout(&Layout::vertical([Length(1), Min(0)]));
    let dim = theme.style(Role::Dim);
    if shown.is_empty() {
        frame.render_widget(Line::styled("no run has ended yet", dim), note);
        return;
    }
    let parameter = parameter.replace('_', " ");
    frame.render_widget(Line::styled(format!("the same fidelity at every {parameter}"), dim), note);
    let layout = match (area.width >= WIDE, area.height >= TALL) {
        (true, _) => Layout::horizontal(vec![Fill(1); shown.len()]).spacing(2),
        (false, true) => Layout::vertical(vec![Fill(1); shown.len()]),
        (false, false) => Layout::horizontal([Fill(1)]),
    };
    for (curve, area) in shown.iter().zip(layout.split(area).iter()) {
        let across = Scale::spanning(curve.points.iter().map(|(x, _)| *x));
        let up = Scale::covering(curve.points.iter().map(|(_, y)| *y));
        let points: Vec<_> = curve.points.iter().map(|(x, y)| (across.along(*x), *y)).collect();
        let line = Dataset::default()
            .data(&points)
            .graph_type(GraphType::Line)
            .marker(line_marker(model.config.ascii))
            .style(theme.style(Role::GaugeRest));
        let marks =
            Dataset::default().data(&points).marker(Marker::Custom('●')).style(theme.style(Role::Accent));
        chart(vec![line, marks], (&across, &parameter), (&up, curve.y), None, theme, frame, *area);
    }
}
