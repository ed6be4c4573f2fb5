//! Lines that are typed: in a box, above a list, and on a border.

use ratatui::text::{Line, Span, Text};
use ratatui::{layout::Rect, style::Style};

use super::{Frame, dialog, on_border, popup};
use crate::look::{Role, Theme};
use crate::tui::line::{InputLine, PathLine};
use crate::tui::text;

/// At most this many completions are listed.
const MAX_COMPLETIONS: usize = 8;

/// A line that is being typed, with its caret, in at most `columns`.
fn typed(line: &InputLine, columns: usize, theme: &Theme) -> Vec<Span<'static>> {
    let (before, after) = line.split();
    // The text after the caret takes at most a third of the columns, unless there is room.
    let room = columns.saturating_sub(1);
    let after = text::fit(after, room.saturating_sub(text::width(before)).max(room / 3));
    let before = text::fit_end(before, room.saturating_sub(text::width(&after)));
    let style = if line.is_selected() { theme.style(Role::Selection) } else { Style::new() };
    vec![Span::styled(before, style), theme.span(Role::Accent, "▏"), Span::raw(after)]
}

/// A filter or a search as it is typed, after its name.
pub(crate) fn typed_after(name: &str, line: &InputLine, theme: &Theme, frame: &mut Frame<'_>, area: Rect) {
    let mut shown = Line::from(theme.span(Role::Dim, name.to_owned()));
    shown.extend(typed(line, usize::from(area.width).saturating_sub(name.len()), theme));
    frame.render_widget(shown, area);
}

/// A filter or a search on a border; with its caret while it is being typed.
pub(crate) fn filter_line(
    filter: &str,
    is_typed: Option<&InputLine>,
    columns: usize,
    theme: &Theme,
) -> Line<'static> {
    let mut spans = vec![theme.span(Role::Key, " / ")];
    match is_typed {
        Some(line) => spans.extend(typed(line, columns + 1, theme)),
        None => spans.push(Span::raw(text::fit_end(filter, columns))),
    }
    spans.push(Span::raw(" "));
    Line::from(spans).style(on_border(theme))
}

/// A box with a line that is typed, and hints below it.
pub(crate) fn line_box(
    title: &str,
    line: &InputLine,
    hints: &[String],
    theme: &Theme,
    frame: &mut Frame<'_>,
) {
    let inner = popup(frame, theme, 76, 3 + hints.len() as u16, dialog(title, theme));
    let columns = usize::from(inner.width);
    let mut lines = Text::from(Line::from(typed(line, columns, theme)));
    lines.extend(hints.iter().map(|hint| theme.line(Role::Dim, text::fit(hint, columns))));
    frame.render_widget(lines, inner);
}

/// A box with a path that is typed, and its completions.
pub(crate) fn path_box(title: &str, path: &PathLine, theme: &Theme, frame: &mut Frame<'_>) {
    let PathLine { line, found, .. } = path;
    let mut hints: Vec<String> = found.iter().take(MAX_COMPLETIONS).cloned().collect();
    if found.len() > hints.len() {
        hints.push(format!("… and {} more", found.len() - hints.len()));
    }
    line_box(title, line, &hints, theme, frame);
}
