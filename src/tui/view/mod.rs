//! Drawing: a function of the model. Nothing here changes anything, and every pane asks the theme for meanings.

mod batch;
mod blocks;
pub(crate) mod caption;
mod compare;
mod curves;
mod editor;
mod frame;
mod heat;
pub(crate) mod help;
mod history;
mod inspector;
mod layout;
mod legend;
mod library;
mod meters;
mod methods;
mod models;
mod outside;
mod passage;
mod picker;
mod player;
mod preview;
mod prompt;
mod race;
mod sessions;
mod status;
mod steps;
mod timeline;
pub(crate) mod training;
mod wrap;

use std::sync::Arc;

use ratatui::layout::Constraint::{Fill, Length, Max, Min, Ratio};
use ratatui::{
    prelude::*,
    symbols::Marker,
    widgets::{
        Axis, Block, BorderType, Borders, Cell, Chart, Clear, Dataset, GraphType, LegendPosition, List,
        ListState, Padding, Paragraph, Row, Scrollbar, ScrollbarOrientation, ScrollbarState, Sparkline,
        Table, TableState, Wrap,
    },
};

use super::{
    Action, ColorDepth, KeyContext, Theme,
    model::{
        EngineState, Model, Overlay, Pane,
        line::Caret,
        run::{Activity, Run},
    },
    text,
    theme::Role,
    update::export,
};
use frame::Target;
pub(crate) use frame::{Frame, Hit, hit};
pub(crate) use layout::{Areas, areas, is_stacked, is_wide};
pub(crate) use outside::outside;
use specreel_client::{
    chart::Scale,
    present::{formats::plural, verdicts::lossless_mark},
};
use specreel_record::StopReason;
use specreel_video as video;
use wrap::{cut, hang, wrap};

/// An area for a picture, filled with half-blocks until a graphics protocol draws over them.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    pub area: Rect,
    pub frame: Arc<video::Frame>,
}

pub(crate) fn draw(model: &Model, theme: &Theme, frame: &mut Frame<'_>) -> Option<Slot> {
    let area = frame.area();
    frame.buffer_mut().set_style(area, theme.style(Role::Text));
    let Some(areas) = areas((area.width, area.height), model.focus, model.inspector.is_some()) else {
        too_small(theme, frame, area);
        return None;
    };
    // The inspector is the caption's.
    for (pane, area) in [
        (Pane::Library, areas.library),
        (Pane::Prompt, areas.prompt),
        (Pane::Caption, areas.caption),
        (Pane::Steps, areas.steps),
        (Pane::Meters, areas.meters),
        (Pane::Caption, areas.inspector),
    ] {
        area.into_iter().for_each(|area| frame.mark(area, Target::Pane(pane)));
    }
    status::header(model, theme, frame, areas.header);
    let mut slot = areas.library.and_then(|area| library::draw(model, theme, frame, area));
    if let Some(area) = areas.prompt {
        prompt::draw(model, theme, frame, area);
    }
    if let Some(area) = areas.caption {
        caption::draw(model, theme, frame, area);
    }
    // The legend is on the caption's border, or else on the border of the pane in its place.
    let without_caption = areas.caption.is_none();
    if let Some(area) = areas.steps {
        steps::draw(model, without_caption, theme, frame, area);
    }
    if let Some((area, inspector)) = areas.inspector.zip(model.inspector) {
        inspector::draw(model, inspector, theme, frame, area);
    }
    if let Some(area) = areas.meters {
        meters::draw(model, without_caption && areas.steps.is_none(), theme, frame, area);
    }
    status::draw(model, theme, frame, areas.status);
    if model.overlay.as_ref().is_some_and(|l| *l != Overlay::Filter) {
        slot = None;
    }
    match &model.overlay {
        Some(Overlay::Methods { query, cursor }) => methods::draw(model, query, *cursor, theme, frame),
        Some(Overlay::Models { query, cursor }) => models::draw(model, query, *cursor, theme, frame),
        Some(Overlay::Tower { line, .. }) => {
            picker::line(model, "Vision tower (mmproj file)", line, theme, frame)
        }
        Some(Overlay::Presets(cursor)) => picker::presets(model, *cursor, theme, frame),
        Some(Overlay::Help { from, query, top }) => help::draw(model, *from, query, *top, theme, frame),
        Some(Overlay::Open { line, found }) => {
            picker::path(model, "Open a video or a directory", line, found, theme, frame);
        }
        Some(Overlay::Sessions | Overlay::SessionFilter) => sessions::draw(model, theme, frame),
        Some(Overlay::Pick { query, cursor }) => methods::pick(model, query, *cursor, theme, frame),
        Some(Overlay::Themes { cursor, .. }) => picker::themes(model, *cursor, theme, frame),
        Some(Overlay::Edit(cursor)) => editor::draw(model, *cursor, theme, frame),
        Some(Overlay::Ask(question)) => picker::line(model, "Follow-up question", question, theme, frame),
        Some(Overlay::SaveMethod(name)) => picker::line(model, "Save method as", name, theme, frame),
        Some(Overlay::Value { row, line }) => picker::value(model, *row, line, theme, frame),
        Some(Overlay::Export(cursor)) => {
            let sidecars = export::sidecars(model).len();
            picker::export(export::formats(model), sidecars, *cursor, theme, frame);
        }
        Some(Overlay::Segments(length)) => {
            picker::line(model, "Segment length (30, 1:30), or scenes", length, theme, frame);
        }
        Some(Overlay::Speech { line, found }) => {
            picker::path(model, "What is said: a transcript, or a speech model", line, found, theme, frame);
        }
        Some(Overlay::History { query, cursor }) => picker::history(model, query, *cursor, theme, frame),
        Some(Overlay::Timeline { query, cursor }) => timeline::draw(model, query, *cursor, theme, frame),
        Some(Overlay::Compare) => compare::draw(model, theme, frame),
        Some(Overlay::Preview) => slot = preview::draw(model, theme, frame),
        Some(Overlay::Batch) => batch::draw(model, theme, frame),
        Some(Overlay::EditCaption) => batch::edit(model, theme, frame),
        Some(Overlay::Filter | Overlay::Search) | None => {}
    }
    status::long_notice(model, theme, frame, areas.status);
    slot
}

/// True if the library has room for a thumbnail of the selected clip, and no box covers it.
pub(crate) fn shows_thumbnail(model: &Model) -> bool {
    let areas = areas(model.size, model.focus, model.inspector.is_some());
    let pane = areas.and_then(|a| a.library);
    matches!(model.overlay, None | Some(Overlay::Filter))
        && pane.is_some_and(|p| library::picture_rows(model, p) > 0)
}

/// A pane with a rounded border, which shows whether it has the focus.
fn panel<'a>(title: impl Into<Line<'a>>, focused: bool, theme: &Theme) -> Block<'a> {
    let border = theme.style(if focused { Role::BorderFocus } else { Role::Border });
    let block = Block::bordered().border_type(BorderType::Rounded).border_style(border);
    block.title_top(title.into())
}

fn title(name: &str, focused: bool, theme: &Theme) -> Span<'static> {
    // Without the focus the title has the text's color, not the border's.
    let style = if focused { theme.style(Role::BorderFocus) } else { on_border(theme) };
    Span::styled(format!(" {name} "), style.patch(theme.style(Role::Title)))
}

/// The text's style for words on a border, which would otherwise take the border's.
fn on_border(theme: &Theme) -> Style {
    Style::new().fg(Color::Reset).patch(theme.style(Role::Text))
}

fn has_focus(model: &Model, pane: Pane) -> bool {
    model.focus == pane
        && model.overlay.as_ref().is_none_or(|l| matches!(l, Overlay::Filter | Overlay::Search))
}

fn dialog(name: &str, theme: &Theme) -> Block<'static> {
    panel(Line::from(title(name, true, theme)), true, theme).padding(Padding::horizontal(1))
}

/// The columns of a box around rows of so many: what they say is not cut while the screen has room for it.
fn around(rows: usize, least: u16) -> u16 {
    least.max(u16::try_from(rows + 4).unwrap_or(u16::MAX - 6))
}

/// Clear the area of a box in the middle of the screen and draw its border. Returns the area inside.
fn popup(frame: &mut Frame<'_>, theme: &Theme, columns: u16, rows: u16, block: Block<'_>) -> Rect {
    let whole = frame.area();
    // A border next to a border would only be noise.
    let columns = if columns + 6 > whole.width { whole.width } else { columns };
    let rows = rows.min(whole.height.saturating_sub(2));
    let area = whole.centered(Length(columns), Length(rows));
    frame.mark(area, Target::Box);
    frame.render_widget(Clear, area);
    // Half of a wide character would overwrite the first column of the border.
    for y in area.top()..area.bottom() {
        let left = area.x.checked_sub(1).and_then(|x| frame.buffer_mut().cell_mut((x, y)));
        if let Some(cell) = left.filter(|cell| text::width(cell.symbol()) > 1) {
            cell.set_symbol(" ");
        }
    }
    frame.buffer_mut().set_style(area, theme.style(Role::Text));
    let inner = block.inner(area);
    frame.render_widget(block, area);
    inner
}

fn rule(theme: &Theme) -> Block<'static> {
    Block::new().borders(Borders::TOP).border_style(theme.style(Role::Border))
}

/// A table with a cursor in a box: the rows around the cursor, and a scrollbar on the box's border if not all fit.
fn list<'a>(
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
fn list_of<'a>(
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
fn scrollbar(frame: &mut Frame<'_>, theme: &Theme, area: Rect, (top, n, rows): (usize, usize, usize)) {
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
fn cell_columns(area: Rect, widths: &[Constraint]) -> Vec<usize> {
    let cells = Layout::horizontal(widths).spacing(2).split(area);
    cells.iter().map(|cell| cell.width.into()).collect()
}

/// A cell of numbers, aligned to the right.
fn number(words: impl Into<String>) -> Cell<'static> {
    Line::from(words.into()).right_aligned().into()
}

/// The width of a table's column: its widest cell or its title.
fn widest<'a>(title: &str, cells: impl Iterator<Item = &'a str>) -> usize {
    cells.map(text::width).fold(text::width(title), usize::max)
}

/// Which columns of these widths fit in `room` next to another one, in order. The first of `worth` are kept longest.
fn fitting(widths: &[usize], worth: &[usize], room: usize) -> Vec<usize> {
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

/// A progress bar of so many cells, filled to a share of 0 to 1.
fn track(share: f64, cells: usize, theme: &Theme) -> [Span<'static>; 2] {
    let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
    let done = (share * cells as f64).round() as usize;
    [theme.span(Role::Gauge, "━".repeat(done)), theme.span(Role::GaugeRest, "─".repeat(cells - done))]
}

/// Draw a chart of points on their scales, with the title of the y axis above it, where no point can be hidden.
fn chart(
    datasets: Vec<Dataset<'_>>,
    (across, x): (&Scale, &str),
    (up, y): (&Scale, &str),
    legend: Option<LegendPosition>,
    theme: &Theme,
    frame: &mut Frame<'_>,
    area: Rect,
) {
    let dim = theme.style(Role::Dim);
    let axis = |scale: &Scale| {
        let ticks = scale.ticks();
        let bounds = [ticks.first(), ticks.last()].map(|tick| tick.map_or(0.0, |tick| scale.along(*tick)));
        let labels: Vec<_> = ticks.into_iter().map(|tick| scale.words(tick)).collect();
        Axis::default().bounds(bounds).labels(labels).style(dim)
    };
    let [title, area] = area.layout(&Layout::vertical([Length(1), Min(0)]));
    frame.render_widget(Line::styled(y.to_owned(), dim), title);
    let half = (Ratio(1, 2), Ratio(1, 2));
    let chart = Chart::new(datasets)
        .x_axis(axis(across).title(x.to_owned()))
        .y_axis(axis(up))
        .legend_position(legend)
        .hidden_legend_constraints(half);
    frame.render_widget(chart, area);
}

fn line_marker(model_is_ascii: bool) -> Marker {
    if model_is_ascii { Marker::Dot } else { Marker::Braille }
}

/// The sign of a method: `=` if it is lossless, `≈` if it is lossy.
fn sign(lossless: bool, theme: &Theme) -> Span<'static> {
    Span::styled(if lossless { "=" } else { "≈" }, mark_style(lossless, theme))
}

fn mark(lossless: bool, theme: &Theme) -> Span<'static> {
    let words = format!("{} {}", if lossless { "=" } else { "≈" }, lossless_mark(lossless));
    Span::styled(words, mark_style(lossless, theme))
}

fn mark_style(lossless: bool, theme: &Theme) -> Style {
    theme.style(if lossless { Role::Good } else { Role::Warn })
}

/// A filter or a search on a border, with its caret while it is being typed.
fn filter_line(model: &Model, filter: &str, is_typed: bool, columns: usize, theme: &Theme) -> Line<'static> {
    let mut spans = vec![theme.span(Role::Key, " / ")];
    match is_typed {
        true => spans.extend(typed(filter, model.caret, columns + 1, theme)),
        false => spans.push(Span::raw(text::fit_end(filter, columns))),
    }
    spans.push(Span::raw(" "));
    Line::from(spans).style(on_border(theme))
}

/// A line that is being typed, with its caret, in at most `columns`.
fn typed(line: &str, caret: Caret, columns: usize, theme: &Theme) -> Vec<Span<'static>> {
    let (before, after) = caret.split(line);
    // The text after the caret takes at most a third of the columns, unless there is room.
    let room = columns.saturating_sub(1);
    let after = text::fit(after, room.saturating_sub(text::width(before)).max(room / 3));
    let before = text::fit_end(before, room.saturating_sub(text::width(&after)));
    let style = if caret.selects { theme.style(Role::Selection) } else { Style::new() };
    vec![Span::styled(before, style), theme.span(Role::Accent, "▏"), Span::raw(after)]
}

/// A filter or a search as it is typed, after its name.
fn typed_after(name: &str, model: &Model, query: &str, theme: &Theme, frame: &mut Frame<'_>, area: Rect) {
    let mut line = Line::from(theme.span(Role::Dim, name));
    line.extend(typed(query, model.caret, usize::from(area.width).saturating_sub(name.len()), theme));
    frame.render_widget(line, area);
}

fn too_small(theme: &Theme, frame: &mut Frame<'_>, area: Rect) {
    let words = ["terminal too small", "needs 60 × 16", &format!("has {} × {}", area.width, area.height)]
        .map(|w| text::fit(w, area.width.into()));
    let lines = words.map(|w| theme.line(Role::Warn, w));
    let at = area.centered_vertically(Length(area.height.min(3)));
    frame.render_widget(Paragraph::new(lines.to_vec()).centered(), at);
}

/// The first of `n` lines to show so that the cursor is in a window of `rows`.
fn window_top(cursor: usize, n: usize, rows: usize) -> usize {
    // The cursor is in the middle, except near both ends.
    cursor.saturating_sub(rows / 2).min(n.saturating_sub(rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_contains_the_cursor() {
        assert_eq!(window_top(0, 10, 4), 0);
        assert_eq!(window_top(5, 10, 4), 3);
        assert_eq!(window_top(9, 10, 4), 6);
        assert_eq!(window_top(2, 3, 10), 0);
        assert_eq!(window_top(0, 0, 0), 0);
    }
}
