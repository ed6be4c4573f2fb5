//! The verdicts of a run with their live counts, each in its own style.

use ratatui::text::{Line, Span};

use crate::look::{Role, Theme};
use crate::tui::{model::Run, widgets::on_border};
use specreel_record::Verdict;

/// For the border of a pane, in at most `columns`.
pub(super) fn line(run: &Run, theme: &Theme, columns: usize) -> Line<'static> {
    let dim = theme.style(Role::Dim);
    let mut line = Line::default();
    for (verdict, count) in run.stats().verdicts.iter() {
        let gap = if line.spans.is_empty() { " " } else { " · " };
        // On a border, a style without a color of its own would take the border's.
        let style = on_border(theme).patch(theme.verdict(verdict));
        let one = [
            Span::styled(gap, dim),
            Span::styled(verdict.name(), style),
            Span::styled(format!(" {count}"), dim),
        ];
        if line.width() + one.iter().map(Span::width).sum::<usize>() + 1 > columns {
            line.push_span(Span::styled(" …", dim));
            break;
        }
        line.extend(one);
    }
    if !line.spans.is_empty() {
        line.push_span(Span::raw(" "));
    }
    line
}

/// All of them, in as many lines of `columns` as they need after `left` columns.
pub(super) fn lines(run: &Run, theme: &Theme, left: usize, columns: usize) -> Vec<Line<'static>> {
    let mut lines: Vec<Line<'static>> = Vec::new();
    for (verdict, count) in run.stats().verdicts.iter() {
        let [name, count]: [Span<'static>; 2] = one(verdict, count, theme);
        let taken = name.width() + count.width() + 2;
        match lines.last_mut().filter(|line| line.width() + taken <= columns) {
            Some(line) => line.extend([Span::raw("  "), name, count]),
            None => lines.push(Line::from(vec![Span::raw(" ".repeat(left)), name, count])),
        }
    }
    lines
}

fn one(verdict: Verdict, count: u64, theme: &Theme) -> [Span<'static>; 2] {
    let count = theme.span(Role::Dim, format!(" {count}"));
    [Span::styled(verdict.name(), theme.verdict(verdict)), count]
}
