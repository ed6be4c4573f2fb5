//! The charts of a comparison: speedup against quality; and, of a sweep over which fidelity does not change, speedup and
//! accepted drafts against the parameter.

use ratatui::layout::Constraint::{Fill, Length, Min};
use ratatui::layout::{Layout, Rect};
use ratatui::widgets::{Dataset, GraphType, Paragraph};
use ratatui::{symbols::Marker, text::Line};

use super::lanes::{LaneRun, lane_runs};
use crate::look::{Role, Theme};
use crate::tui::model::{Model, compare::Comparison};
use crate::tui::text;
use crate::tui::widgets::{Frame, chart, line_marker};
use specreel_client::chart::{Plot, Point, Scale};

/// Shares of loosened tokens that differ by less are equal.
const FLAT: f64 = 0.005;
/// Minimum columns to place the charts side by side, and minimum rows to place one above the other.
const WIDE: u16 = 64;
const TALL: u16 = 14;

/// The chart: speedup against the share of tokens that the target would have written itself. A sweep over which that share does
/// not change shows what does: speedup and accepted drafts against the parameter.
pub(super) fn draw(model: &Model, comparison: &Comparison, theme: &Theme, frame: &mut Frame<'_>, area: Rect) {
    let lanes = lane_runs(model, comparison);
    let over = |one: &&LaneRun<'_>| one.run.is_some_and(|run| run.has_ended() && run.stats().emitted > 0);
    let shares = lanes.iter().filter(over).filter_map(|one| Some(one.run?.stats().loosened_share()));
    let (least, most) = shares.fold((1.0_f64, 0.0_f64), |(least, most), s| (least.min(s), most.max(s)));
    match comparison.swept {
        Some(parameter) if most - least < FLAT => {
            sweep(model, &lanes, parameter, theme, frame, area);
        }
        _ => front(model, &lanes, theme, frame, area),
    }
}

/// Speedup against strict tokens, with the Pareto front.
fn front(model: &Model, lanes: &[LaneRun<'_>], theme: &Theme, frame: &mut Frame<'_>, area: Rect) {
    let points = lanes.iter().filter_map(|one| {
        let run = one.run.filter(|r| r.has_ended() && r.stats().emitted > 0)?;
        Some((one.speedup?, 100.0 * (1.0 - run.stats().loosened_share()), one.lane.label.clone()))
    });
    let plot = Plot::new("", "speedup", "% strict tokens", points).y_at_most(100.0);
    if plot.points().is_empty() {
        frame.render_widget(theme.line(Role::Dim, "no run has ended yet"), area);
        return;
    }
    let names =
        plot.points().iter().map(|p| text::width(&p.label)).max().unwrap_or(0).clamp(8, 28) as u16 + 2;
    let names = if area.width >= names + 46 { names } else { 0 };
    let [left, right] = area.layout(&Layout::horizontal([Min(0), Length(names)]).spacing(2));
    let style = |point: &Point| theme.style(if point.front { Role::Accent } else { Role::Dim });
    let points: Vec<_> =
        plot.symbols().map(|(symbol, point)| (symbol, style(point), [(point.x, point.y)])).collect();
    let stairs = plot.stairs();
    let front = Dataset::default()
        .data(&stairs)
        .graph_type(GraphType::Line)
        .marker(line_marker(model.config.ascii))
        .style(theme.style(Role::GaugeRest));
    let marks = points
        .iter()
        .map(|(symbol, style, at)| Dataset::default().data(at).marker(Marker::Custom(*symbol)).style(*style));
    let (across, up) = plot.scales();
    let datasets = std::iter::once(front).chain(marks).collect();
    chart(datasets, (&across, &plot.x), (&up, &plot.y), None, theme, frame, left);
    let names = plot.symbols().map(|(symbol, point)| {
        Line::styled(text::fit(&format!("{symbol} {}", point.label), right.width.into()), style(point))
    });
    frame.render_widget(Paragraph::new(names.collect::<Vec<_>>()), right);
}

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

fn sweep(
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
