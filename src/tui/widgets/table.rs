//! Tables with a cursor, their columns, and scrollbars.

use ratatui::layout::{Constraint, Layout, Margin, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{
    Cell, Paragraph, Row, Scrollbar, ScrollbarOrientation, ScrollbarState, Table, TableState, Wrap,
};

use super::{Frame, Target, rule};
use crate::look::{Role, Theme};
use crate::tui::text;

/// Rows of the rule and the text below a list.
pub(crate) const BELOW: u16 = 3;

/// A table with a cursor in a box: the rows around the cursor, and a scrollbar on the box's border if not all fit.
pub(crate) fn list<'a>(
    frame: &mut Frame<'_>,
    theme: &Theme,
    area: Rect,
    place: (usize, usize),
    columns: (Option<Row<'a>>, &[Constraint]),
    row: impl Fn(usize) -> Row<'a>,
) {
    list_of(frame, theme, area, place, columns, Some, row);
}

/// The same with lines that cannot be selected between the entries; `entry` is the index of a line's entry.
pub(crate) fn list_of<'a>(
    frame: &mut Frame<'_>,
    theme: &Theme,
    area: Rect,
    (cursor, n): (usize, usize),
    (header, widths): (Option<Row<'a>>, &[Constraint]),
    entry: impl Fn(usize) -> Option<usize>,
    row: impl Fn(usize) -> Row<'a>,
) {
    let above = u16::from(header.is_some());
    let rows = usize::from(area.height.saturating_sub(above));
    let top = window_top(cursor, n, rows);
    for (line, y) in (top..n).take(rows).zip(area.y + above..) {
        if let Some(entry) = entry(line) {
            frame.mark(Rect { y, height: 1, ..area }, Target::Row(entry));
        }
    }
    let table = Table::new((top..n).take(rows).map(row), widths)
        .column_spacing(2)
        .row_highlight_style(theme.style(Role::Selection));
    let table = header.into_iter().fold(table, |table, row| table.header(row.style(theme.style(Role::Dim))));
    frame.render_stateful_widget(
        table,
        area,
        &mut TableState::new().with_selected(cursor.saturating_sub(top)),
    );
    scrollbar(frame, theme, area.outer(Margin::new(2, 0)), (top, n, rows));
}

/// A scrollbar on the right edge, if not all of `n` lines fit in `rows`.
pub(crate) fn scrollbar(
    frame: &mut Frame<'_>,
    theme: &Theme,
    area: Rect,
    (top, n, rows): (usize, usize, usize),
) {
    if rows < n {
        let bar = Scrollbar::new(ScrollbarOrientation::VerticalRight)
            .begin_symbol(None)
            .end_symbol(None)
            .track_symbol(Some("│"))
            .thumb_symbol("┃")
            .style(theme.style(Role::BorderFocus));
        // Positions refer to the first visible line.
        let mut state = ScrollbarState::new(n - rows + 1).position(top).viewport_content_length(rows);
        frame.render_stateful_widget(bar, area.intersection(frame.area()), &mut state);
    }
}

/// The columns of a table's cells in a list, for texts that are cut with a mark.
pub(crate) fn cell_columns(area: Rect, widths: &[Constraint]) -> Vec<usize> {
    let cells = Layout::horizontal(widths).spacing(2).split(area);
    cells.iter().map(|cell| cell.width.into()).collect()
}

/// A cell of numbers, aligned to the right.
pub(crate) fn number(words: impl Into<String>) -> Cell<'static> {
    Line::from(words.into()).right_aligned().into()
}

/// The width of a table's column: its widest cell or its title.
pub(crate) fn widest<'a>(title: &str, cells: impl Iterator<Item = &'a str>) -> usize {
    cells.map(text::width).fold(text::width(title), usize::max)
}

/// Which columns of these widths fit in `room` next to another one, in order. The first of `worth` are kept longest.
pub(crate) fn fitting(widths: &[usize], worth: &[usize], room: usize) -> Vec<usize> {
    let mut used = 0;
    let mut kept: Vec<usize> = worth
        .iter()
        .copied()
        .take_while(|at| {
            used += widths[*at] + 2;
            used <= room + 2
        })
        .collect();
    kept.sort_unstable();
    kept
}

/// The first of `n` lines to show so that the cursor is in a window of `rows`.
pub(crate) fn window_top(cursor: usize, n: usize, rows: usize) -> usize {
    // The cursor is in the middle, except near both ends.
    cursor.saturating_sub(rows / 2).min(n.saturating_sub(rows))
}

/// A name and a description.
pub(crate) fn named<'a>(name: &str, about: &str, columns: &[usize], theme: &Theme) -> Row<'a> {
    let about = theme.span(Role::Dim, text::fit(&text::clean_line(about), columns[1]));
    Row::new([Span::raw(text::fit(&text::clean_line(name), columns[0])), about])
}

/// A text below a list, under a rule.
pub(crate) fn below_list(words: &str, theme: &Theme, frame: &mut Frame<'_>, area: Rect) {
    let words = Paragraph::new(text::clean(words)).wrap(Wrap { trim: true });
    frame.render_widget(words.block(rule(theme)), area);
}
