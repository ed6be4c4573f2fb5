//! Drawing: a function of the model. Nothing here changes anything, and every pane asks the theme for meanings.

mod bars;
mod blocks;
pub(crate) mod caption;
mod compare;
mod editor;
mod heat;
pub(crate) mod help;
mod history;
mod inspector;
mod layout;
pub(crate) mod library;
mod meters;
mod passage;
mod picker;
mod player;
mod preview;
mod prompt;
mod race;
mod sessions;
mod status;
pub(crate) mod training;
mod wrap;

use std::sync::Arc;

use ratatui::{
    Frame,
    layout::Rect,
    style::{Color, Style},
    text::{Line, Span},
    widgets::{Block, BorderType, Clear, Paragraph},
};

use super::{
    Theme, export,
    model::{Model, Overlay, Pane, line::Caret},
    text,
    theme::Role,
};
use crate::video;
pub(crate) use layout::{Areas, areas, is_stacked};

/// A place for a picture. Half-blocks may stand there already; a terminal that can do better draws over them.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    pub area: Rect,
    pub frame: Arc<video::Frame>,
}

/// Draw everything. What comes back is the place of the one picture that nothing covers.
pub(crate) fn draw(model: &Model, theme: &Theme, frame: &mut Frame<'_>) -> Option<Slot> {
    let area = frame.area();
    frame.buffer_mut().set_style(area, theme.style(Role::Text));
    let Some(areas) = areas((area.width, area.height), model.focus, model.inspector.is_some()) else {
        too_small(theme, frame, area);
        return None;
    };
    status::header(model, theme, frame, areas.header);
    let mut slot = areas.library.and_then(|area| library::draw(model, theme, frame, area));
    if let Some(area) = areas.prompt {
        prompt::draw(model, theme, frame, area);
    }
    if let Some(area) = areas.caption {
        caption::draw(model, theme, frame, area);
    }
    match (areas.meters, model.inspector) {
        (Some(area), Some(inspector)) => inspector::draw(model, inspector, theme, frame, area),
        (Some(area), None) => meters::draw(model, theme, frame, area),
        (None, _) => {}
    }
    status::draw(model, theme, frame, areas.status);
    if model.layer.as_ref().is_some_and(|l| *l != Overlay::Filter) {
        slot = None;
    }
    match &model.layer {
        Some(Overlay::Methods(cursor)) => picker::methods(model, *cursor, theme, frame),
        Some(Overlay::Presets(cursor)) => picker::presets(model, *cursor, theme, frame),
        Some(Overlay::Help { query, top }) => help::draw(model, query, *top, theme, frame),
        Some(Overlay::Open { line, found }) => picker::path(model, line, found, theme, frame),
        Some(Overlay::Sessions | Overlay::SessionFilter) => sessions::draw(model, theme, frame),
        Some(Overlay::Pick(cursor)) => picker::pick(model, *cursor, theme, frame),
        Some(Overlay::Edit(cursor)) => editor::draw(model, *cursor, theme, frame),
        Some(Overlay::Ask(question)) => picker::line(model, "Ask on", question, theme, frame),
        Some(Overlay::SaveMethod(name)) => picker::line(model, "Save the method as", name, theme, frame),
        Some(Overlay::Value { row, line }) => picker::value(model, *row, line, theme, frame),
        Some(Overlay::Export(cursor)) => {
            let formats = model.runs.shown().map_or(&[][..], export::formats);
            picker::export(formats, *cursor, theme, frame);
        }
        Some(Overlay::Segments(length)) => {
            picker::line(model, "Length of a piece (30, 1:30)", length, theme, frame);
        }
        Some(Overlay::History { query, cursor }) => picker::history(model, query, *cursor, theme, frame),
        Some(Overlay::Compare) => compare::draw(model, theme, frame),
        Some(Overlay::Preview) => slot = preview::draw(model, theme, frame),
        Some(Overlay::Filter | Overlay::Search) | None => {}
    }
    status::long_notice(model, theme, frame, areas.status);
    slot
}

/// True where the library has room for a picture of the selected clip, and nothing lies over it.
pub(crate) fn shows_thumbnail(model: &Model) -> bool {
    let areas = areas(model.size, model.focus, model.inspector.is_some());
    let pane = areas.and_then(|a| a.library);
    matches!(model.layer, None | Some(Overlay::Filter))
        && pane.is_some_and(|p| library::picture_rows(model, p) > 0)
}

/// A pane with a rounded border; the one with the focus stands out.
fn panel<'a>(title: impl Into<Line<'a>>, focused: bool, theme: &Theme) -> Block<'a> {
    let border = theme.style(if focused { Role::BorderFocus } else { Role::Border });
    let block = Block::bordered().border_type(BorderType::Rounded).border_style(border);
    block.title_top(title.into())
}

/// A pane's name for its border.
fn title(name: &str, focused: bool, theme: &Theme) -> Span<'static> {
    // Without the focus a name still has the text's colour, not that of the border it stands in.
    let style = if focused { theme.style(Role::BorderFocus) } else { on_border(theme) };
    Span::styled(format!(" {name} "), style.patch(theme.style(Role::Title)))
}

/// The text's style for words that stand in a border.
fn on_border(theme: &Theme) -> Style {
    Style::new().fg(Color::Reset).patch(theme.style(Role::Text))
}

/// True if this pane takes the keys.
fn has_focus(model: &Model, pane: Pane) -> bool {
    model.focus == pane && model.layer.as_ref().is_none_or(|l| matches!(l, Overlay::Filter | Overlay::Search))
}

/// A box over the panes, emptied.
fn popup(frame: &mut Frame<'_>, theme: &Theme, columns: u16, rows: u16, name: &str) -> (Rect, Rect) {
    let whole = frame.area();
    // A border beside a border would only be noise.
    let columns = if columns + 6 > whole.width { whole.width } else { columns };
    let rows = rows.min(whole.height.saturating_sub(2));
    let area = Rect {
        x: whole.x + (whole.width - columns) / 2,
        y: whole.y + (whole.height - rows) / 2,
        width: columns,
        height: rows,
    };
    frame.render_widget(Clear, area);
    // Half of a wide character would take the border's first column with it.
    for y in area.top()..area.bottom() {
        let left = area.x.checked_sub(1).and_then(|x| frame.buffer_mut().cell_mut((x, y)));
        if let Some(cell) = left.filter(|cell| text::width(cell.symbol()) > 1) {
            cell.set_symbol(" ");
        }
    }
    frame.buffer_mut().set_style(area, theme.style(Role::Text));
    let block = panel(Line::from(title(name, true, theme)), true, theme);
    let inner = block.inner(area);
    frame.render_widget(block, area);
    (area, Rect { x: inner.x + 1, width: inner.width.saturating_sub(2), ..inner })
}

/// A line that is being typed, with its caret, in so many columns.
fn typed(line: &str, caret: Caret, columns: usize, theme: &Theme) -> Vec<Span<'static>> {
    let (before, after) = caret.split(line);
    // What follows is seen, too, but not at the cost of more than a third of what was typed before.
    let room = columns.saturating_sub(1);
    let after = text::fit(after, room.saturating_sub(text::width(before)).max(room / 3));
    let before = text::fit_end(before, room.saturating_sub(text::width(&after)));
    let style = if caret.selects { theme.style(Role::Selection) } else { Style::new() };
    vec![Span::styled(before, style), Span::styled("▏", theme.style(Role::Accent)), Span::raw(after)]
}

fn too_small(theme: &Theme, frame: &mut Frame<'_>, area: Rect) {
    let words = ["specreel needs", "60 × 16", &format!("here: {} × {}", area.width, area.height)]
        .map(|w| text::fit(w, area.width.into()));
    let rows = words.len().min(area.height.into());
    let top = area.y + (area.height - rows as u16) / 2;
    let lines = words.into_iter().take(rows).map(|w| Line::styled(w, theme.style(Role::Warn)));
    let at = Rect { y: top, height: rows as u16, ..area };
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()).centered(), at);
}

/// The first line to show so that the cursor is inside a window of `rows`.
fn window_top(cursor: usize, n: usize, rows: usize) -> usize {
    // The cursor stands in the middle, but never further from the edges than the list allows.
    cursor.saturating_sub(rows / 2).min(n.saturating_sub(rows))
}

/// Where a list that does not fit stands: `3 of 12` on the upper border of its box.
fn place_in_list(cursor: usize, n: usize, rows: usize, theme: &Theme, frame: &mut Frame<'_>, area: Rect) {
    if rows < n && area.width > 4 {
        let words = Line::styled(format!(" {} of {n} ", cursor + 1), theme.style(Role::Dim)).right_aligned();
        frame.render_widget(words, Rect { x: area.x + 1, width: area.width - 2, height: 1, ..area });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_holds_the_cursor() {
        assert_eq!(window_top(0, 10, 4), 0);
        assert_eq!(window_top(5, 10, 4), 3);
        assert_eq!(window_top(9, 10, 4), 6);
        assert_eq!(window_top(2, 3, 10), 0);
        assert_eq!(window_top(0, 0, 0), 0);
    }
}
