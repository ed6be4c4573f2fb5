//! A method taken apart: five questions, what is chosen, and the keys of each choice.

use ratatui::{
    Frame,
    layout::Rect,
    style::Style,
    text::{Line, Span},
    widgets::Paragraph,
};

use super::{caption, place_in_list, popup, window_top};
use crate::tui::{
    Theme,
    model::{
        Model,
        edit::{Row, rows, value},
    },
    text,
    theme::Role,
};

/// Columns of an axis's name, and of a value.
const NAME: usize = 13;
const VALUE: usize = 18;

pub(super) fn draw(model: &Model, cursor: usize, theme: &Theme, frame: &mut Frame<'_>) {
    let Some(method) = model.methods.current() else { return };
    let rows = rows(method);
    let n = rows.len();
    // Its height is that of the longest method, so that it does not jump as choices change.
    let (area, inner) = popup(frame, theme, 84, 20.max(n as u16 + 2), "Method");
    let label = text::fit(&model.methods.label(model.methods.chosen), 40);
    let lossless = model.methods.is_lossless(method);
    let head = Line::from(vec![
        Span::styled(format!(" {label} "), theme.style(Role::Title)),
        Span::styled(format!("{} ", caption::mark(lossless)), caption::mark_style(lossless, theme)),
    ]);
    frame.render_widget(
        head.right_aligned(),
        Rect { x: area.x + 1, y: area.bottom() - 1, width: area.width - 2, height: 1 },
    );
    let height = usize::from(inner.height).max(1);
    place_in_list(cursor, n, height, theme, frame, area);
    let columns = usize::from(inner.width);
    let dim = theme.style(Role::Dim);
    let mut lines = Vec::new();
    for (i, row) in rows.into_iter().enumerate().skip(window_top(cursor, n, height)).take(height) {
        let here = i == cursor;
        let of = |style: Style| if here { Style::new() } else { style };
        let said = value(method, row);
        let shown = said.as_deref().unwrap_or("as usual").replace('_', " ");
        let shown = text::pad(&if here { format!("‹ {shown} ›") } else { format!("  {shown}") }, VALUE);
        let mut spans = match row {
            Row::Choice(axis) => vec![
                Span::styled(text::pad(axis.name, NAME), of(theme.style(Role::Title))),
                Span::styled(shown, of(theme.style(Role::Accent))),
                Span::styled(format!("  {}", axis.question), of(dim)),
            ],
            Row::Key(_, key) => vec![
                Span::raw(" ".repeat(NAME)),
                Span::styled(shown, of(if said.is_none() { dim } else { Style::new() })),
                Span::styled(format!("  {}", key.name.replace('_', " ")), of(dim)),
            ],
        };
        let used: usize = spans.iter().map(Span::width).sum();
        spans.push(Span::raw(" ".repeat(columns.saturating_sub(used))));
        let line = Line::from(spans);
        lines.push(if here { line.style(theme.style(Role::Selection)) } else { line });
    }
    frame.render_widget(Paragraph::new(lines), inner);
}
