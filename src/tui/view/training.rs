//! The progress of a training run: how far, how fast, and its curve.

use super::*;
use crate::tui::training::TrainingPicture;

/// Styles of the curve's lines; more lines share them.
const LINES: [Role; 2] = [Role::Accent, Role::Loosened];

pub(crate) fn draw(picture: &TrainingPicture, is_ascii: bool, theme: &Theme, frame: &mut Frame<'_>) {
    let area = frame.area();
    frame.buffer_mut().set_style(area, theme.style(Role::Text));
    let dim = theme.style(Role::Dim);
    let columns = usize::from(area.width);
    let on_border = |words: &str, room: usize| {
        Line::styled(format!(" {} ", text::fit(words, columns.saturating_sub(room))), dim)
    };
    let block = panel(title("Training", true, theme), true, theme)
        .title_top(on_border(&picture.title, 16).right_aligned())
        .title_bottom(on_border(&picture.foot, 6))
        .padding(Padding::horizontal(1));
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let [progress_area, facts_area, _, chart_area] =
        inner.layout(&Layout::vertical([Length(1), Length(1), Length(1), Min(0)]));
    frame.render_widget(progress(picture, theme, inner.width.into()), progress_area);
    frame.render_widget(facts(picture, theme), facts_area);
    if picture.curve.lines.iter().all(|(_, points)| points.len() < 2) {
        frame.render_widget(Line::styled("The curve starts at the second point.", dim), chart_area);
        return;
    }
    let scale = |value: fn(&(f64, f64)) -> f64| {
        Scale::covering(picture.curve.lines.iter().flat_map(|(_, points)| points.iter().map(value)))
    };
    let lines = picture.curve.lines.iter().zip(LINES.into_iter().cycle()).map(|((name, points), role)| {
        Dataset::default()
            .name(name.as_str())
            .data(points)
            .graph_type(GraphType::Line)
            .marker(line_marker(is_ascii))
            .style(theme.style(role))
    });
    let (across, up) = (scale(|p| p.0), scale(|p| p.1));
    let axes = ((&across, picture.curve.x.as_str()), (&up, picture.curve.y.as_str()));
    chart(lines.collect(), axes.0, axes.1, Some(LegendPosition::TopRight), theme, frame, chart_area);
}

/// The stage, its progress, and the remaining time.
fn progress(picture: &TrainingPicture, theme: &Theme, columns: usize) -> Line<'static> {
    let doing = text::pad(&picture.doing, 24);
    let right = format!(" {:3.0} %  {}", 100.0 * picture.share.clamp(0.0, 1.0), picture.left);
    let cells = columns.saturating_sub(text::width(&doing) + text::width(&right)).min(60);
    let [done, rest] = track(picture.share, cells, theme);
    Line::from(vec![theme.span(Role::Title, doing), done, rest, Span::raw(right)])
}

fn facts(picture: &TrainingPicture, theme: &Theme) -> Line<'static> {
    let fact = |(i, (name, value)): (usize, &(String, String))| {
        let gap = if i > 0 { "   " } else { "" };
        let name = theme.span(Role::Dim, format!("{gap}{name} "));
        [name, theme.span(Role::Title, value.clone())]
    };
    picture.facts.iter().enumerate().flat_map(fact).collect()
}
