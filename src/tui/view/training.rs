//! A training: how far, how fast, and its curve.

use ratatui::{
    Frame,
    layout::Rect,
    style::Style,
    text::{Line, Span},
    widgets::Paragraph,
};

use super::{bars, panel, title};
use crate::tui::{Theme, text, theme::Role, training::TrainingPicture};

/// Symbols of the curve's lines, as the chart writes them, and what they look like here.
const LINES: [(char, Role); 2] = [('*', Role::Accent), ('o', Role::Loosened)];
/// Columns of the chart's scale.
const SCALE: usize = 8;

pub(crate) fn draw(picture: &TrainingPicture, theme: &Theme, frame: &mut Frame<'_>) {
    let area = frame.area();
    frame.buffer_mut().set_style(area, theme.style(Role::Text));
    let dim = theme.style(Role::Dim);
    let room = usize::from(area.width).saturating_sub(16);
    let mut block = panel(title("Training", true, theme), true, theme);
    let name = format!(" {} ", text::fit(&picture.title, room));
    block = block.title_top(Line::styled(name, dim).right_aligned());
    let foot = format!(" {} ", text::fit(&picture.foot, usize::from(area.width).saturating_sub(6)));
    block = block.title_bottom(Line::styled(foot, dim));
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let inner = Rect { x: inner.x + 1, width: inner.width.saturating_sub(2), ..inner };
    let columns = usize::from(inner.width);
    let mut lines = vec![way(picture, theme, columns), facts(picture, theme), Line::default()];
    let rows = usize::from(inner.height).saturating_sub(lines.len() + 3);
    if picture.curve.lines.iter().any(|(_, points)| points.len() > 1) {
        let chart = picture.curve.text(columns.saturating_sub(SCALE), rows);
        lines.extend(chart.lines().map(|line| chart_line(line, theme)));
    } else {
        lines.push(Line::styled("The curve begins with the second point.", dim));
    }
    frame.render_widget(Paragraph::new(lines), inner);
}

/// What goes on, how far it is, and how long it will still take.
fn way(picture: &TrainingPicture, theme: &Theme, columns: usize) -> Line<'static> {
    let doing = text::pad(&picture.doing, 24);
    let right = format!(" {:3.0} %  {}", 100.0 * picture.share.clamp(0.0, 1.0), picture.left);
    let cells = columns.saturating_sub(text::width(&doing) + text::width(&right)).min(60);
    let (bar, rest) = bars::across(picture.share, cells);
    Line::from(vec![
        Span::styled(doing, theme.style(Role::Title)),
        Span::styled(bar, theme.style(Role::Gauge)),
        Span::styled("░".repeat(rest), theme.style(Role::GaugeRest)),
        Span::raw(right),
    ])
}

fn facts(picture: &TrainingPicture, theme: &Theme) -> Line<'static> {
    let mut line = Line::default();
    for (name, value) in &picture.facts {
        if !line.spans.is_empty() {
            line.push_span(Span::raw("   "));
        }
        line.push_span(Span::styled(format!("{name} "), theme.style(Role::Dim)));
        line.push_span(Span::styled(value.clone(), theme.style(Role::Title)));
    }
    line
}

/// A line of the chart: its lines in their colours, all else dim. A symbol stands for its line where blanks are around it
/// or others of its kind; the words of the heading hold letters like it.
fn chart_line(line: &str, theme: &Theme) -> Line<'static> {
    let dim = theme.style(Role::Dim);
    let chars: Vec<char> = line.chars().collect();
    let is_blank =
        |i: Option<usize>| i.and_then(|i| chars.get(i)).is_none_or(|c| !c.is_alphabetic() || *c == 'o');
    let style = |i: usize| -> Style {
        let role = LINES.iter().find(|(symbol, _)| *symbol == chars[i]).map(|(_, role)| *role);
        let alone = is_blank(i.checked_sub(1)) && is_blank(Some(i + 1));
        role.filter(|_| alone).map_or(dim, |role| theme.style(role))
    };
    Line::from((0..chars.len()).map(|i| Span::styled(chars[i].to_string(), style(i))).collect::<Vec<_>>())
}
