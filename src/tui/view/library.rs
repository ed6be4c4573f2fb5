//! The library pane.

use ratatui::{
    Frame,
    layout::Rect,
    text::{Line, Span},
    widgets::Paragraph,
};

use super::{Slot, has_focus, panel, preview, title, typed, window_top};
use crate::{
    record::units,
    tui::{
        Theme,
        model::{Model, Overlay, Pane, library::Entry},
        text,
        theme::Role,
    },
};

/// Least rows of a pane that has room for a picture.
const TALL: u16 = 24;

/// Rows for a picture of the selected clip, at the foot of the pane.
pub(super) fn picture_rows(model: &Model, pane: Rect) -> u16 {
    match model.has_pictures() && pane.height >= TALL {
        // As wide as the pane, of the usual shape.
        true => (pane.width * 9 / 32).min(pane.height / 3),
        false => 0,
    }
}

/// The place in the list of the clip that stands in this row of the screen.
pub(crate) fn entry_at(model: &Model, pane: Rect, row: u16) -> Option<usize> {
    let rows = pane.height.saturating_sub(2 + picture_rows(model, pane));
    let line = row.checked_sub(pane.y + 1).filter(|line| *line < rows)?;
    let library = &model.library;
    let at = window_top(library.cursor, library.shown.len(), rows.into()) + usize::from(line);
    (at < library.shown.len()).then_some(at)
}

pub(super) fn draw(model: &Model, theme: &Theme, frame: &mut Frame<'_>, area: Rect) -> Option<Slot> {
    let library = &model.library;
    let focused = has_focus(model, Pane::Library);
    let mut block = panel(title("Library", focused, theme), focused, theme);
    let dim = theme.style(Role::Dim);
    let count = match (library.scanning, library.shown.len(), library.entries.len()) {
        (1.., _, n) => format!(" {n} … "),
        (0, shown, n) if shown < n => format!(" {shown} of {n} "),
        (0, _, n) => format!(" {n} "),
    };
    let count = match library.sort.name() {
        "" => count,
        order => format!("{count}· {order} "),
    };
    block = block.title_top(Line::styled(count, dim).right_aligned());
    if model.layer == Some(Overlay::Filter) || !library.filter.is_empty() {
        let room = usize::from(area.width).saturating_sub(7);
        let mut words = vec![Span::raw(" / ")];
        match model.layer == Some(Overlay::Filter) {
            true => words.extend(typed(&library.filter, model.caret, room, theme)),
            false => words.push(Span::raw(text::fit_end(&library.filter, room))),
        }
        words.push(Span::raw(" "));
        block = block.title_bottom(Line::from(words).style(theme.style(Role::Accent)));
    }
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let high = picture_rows(model, area);
    let foot = Rect { y: inner.bottom() - high, height: high, ..inner };
    let inner = Rect { height: inner.height - high, ..inner };
    let columns = usize::from(inner.width);
    if library.shown.is_empty() {
        let words = match (library.entries.is_empty(), library.scanning) {
            (true, 0) => ["No clips here yet.", "Paste a path, or press o", "to open a file or a folder."],
            (true, _) => ["Looking for videos…", "", ""],
            (false, _) => ["No clip has such a name.", "Esc clears the filter.", ""],
        };
        let lines = words.map(|w| Line::styled(text::fit(&format!(" {w}"), columns), dim));
        frame.render_widget(Paragraph::new(lines.to_vec()), inner);
        return None;
    }
    let rows = usize::from(inner.height);
    let top = window_top(library.cursor, library.shown.len(), rows);
    let mut lines = Vec::with_capacity(rows);
    for (at, index) in library.shown.iter().enumerate().skip(top).take(rows) {
        let here = at == library.cursor;
        let mut line = entry_line(&library.entries[*index], here, columns, theme);
        if here {
            line = line.style(theme.style(if focused { Role::Selection } else { Role::SelectionDim }));
        }
        lines.push(line);
    }
    frame.render_widget(Paragraph::new(lines), inner);
    preview::small(model, theme, frame, foot)
}

/// `▸ title  folder      0:12  3.4 MB`; what does not fit is left out, the folder first.
fn entry_line(entry: &Entry, here: bool, columns: usize, theme: &Theme) -> Line<'static> {
    let seconds = entry.facts().and_then(|f| f.seconds).map(text::clock);
    let mut right = match entry.problem() {
        Some(_) => "no video".to_owned(),
        None => seconds.unwrap_or_default(),
    };
    if let Some(bytes) = entry.bytes {
        right.push_str(&format!("{:>8}", units::bytes(bytes)));
    }
    if !right.is_empty() {
        right = format!(" {} ", right.trim_start());
    }
    let room = columns.saturating_sub(2 + text::width(&right));
    let name = text::fit(&entry.title, room);
    let left = room - text::width(&name);
    let place = match entry.place.as_str() {
        "" => String::new(),
        place if left > text::width(place) + 2 => format!("  {place}"),
        place if left > 8 => format!("  {}", text::fit_end(place, left - 3)),
        _ => String::new(),
    };
    // On the selected line everything has the selection's own colours.
    let dim = if here { ratatui::style::Style::new() } else { theme.style(Role::Dim) };
    let fill = " ".repeat(left.saturating_sub(text::width(&place)));
    let named = if entry.problem().is_some() { dim } else { ratatui::style::Style::new() };
    Line::from(vec![
        Span::raw(if here { "▸ " } else { "  " }),
        Span::styled(name, named),
        Span::styled(format!("{place}{fill}{right}"), dim),
    ])
}
