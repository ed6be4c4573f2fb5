//! The method editor: the five choices of a method and the keys of each.

use super::*;
use crate::tui::model::edit::{self, rows, value};

pub(super) fn draw(model: &Model, cursor: usize, theme: &Theme, frame: &mut Frame<'_>) {
    let Some(method) = model.methods.current() else { return };
    let rows = rows(method);
    let label = text::fit(&model.methods.label(model.methods.chosen), 40);
    let head = Line::from(vec![
        theme.span(Role::Title, format!(" {label} ")),
        mark(method.lossless(), theme),
        Span::raw(" "),
    ]);
    let block = dialog("Method", theme).title_bottom(head.right_aligned());
    // The height fits most methods, so that the box keeps its size as choices change.
    let inner = popup(frame, theme, 84, 20.max(rows.len() as u16 + 2), block);
    let dim = theme.style(Role::Dim);
    let [name, value_width] = [11, 18];
    let widths = [Constraint::Length(name), Constraint::Length(value_width), Constraint::Fill(1)];
    let last = usize::from(inner.width.saturating_sub(name + value_width + 4));
    list(frame, theme, inner, (cursor, rows.len()), (None, &widths), |i| {
        let value = value(method, rows[i]);
        let shown = value.as_deref().unwrap_or("default").replace('_', " ");
        let shown = text::fit(&shown, usize::from(value_width).saturating_sub(4));
        let shown = if i == cursor { format!("‹ {shown} ›") } else { format!("  {shown}") };
        let cells = match rows[i] {
            edit::Row::Choice(axis) => [
                theme.span(Role::Title, axis.name),
                theme.span(Role::Accent, shown),
                Span::styled(text::fit(axis.question, last), dim),
            ],
            edit::Row::Key(_, key) => [
                Span::raw(""),
                Span::styled(shown, if value.is_none() { dim } else { Style::new() }),
                Span::styled(text::fit(&key.name.replace('_', " "), last), dim),
            ],
        };
        Row::new(cells)
    });
}
