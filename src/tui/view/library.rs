//! The library pane.

use ratatui::layout::Constraint::{Length, Min};
use ratatui::layout::{Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{List, ListState, Paragraph};

use crate::look::{Role, Theme};
use crate::tui::model::{Model, library::Entry, preview};
use crate::tui::widgets::{Frame, Slot, Target, cut, filter_line, panel, picture, title, window_top, wrap};
use crate::tui::{pane::Pane, text, view::has_focus};
use specreel_client::moments::Moment;
use specreel_record::{clock, units};

/// The fewest columns in which a directory can be distinguished from another one.
const LEAST_DIR: usize = 10;

/// Rows from which on the pane has room for a picture.
const TALL: u16 = 24;

pub(super) fn picture_rows(model: &Model, pane: Rect) -> u16 {
    match model.has_pictures() && pane.height >= TALL {
        // As wide as the pane, at 16:9.
        true => (pane.width * 9 / 32).min(pane.height / 3),
        false => 0,
    }
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
    let typed = model.screens.typed_on(Pane::Library);
    if typed.is_some() || !library.filter.is_empty() {
        let room = usize::from(area.width).saturating_sub(8);
        block = block.title_bottom(filter_line(&library.filter, typed, room, theme));
    }
    let inner = frame.border(block, area);
    let picture = Length(picture_rows(model, area));
    let [inner, foot] = inner.layout(&Layout::vertical([Min(0), picture]));
    if library.shown.is_empty() {
        let words = match (library.entries.is_empty(), library.scanning) {
            (true, 0) => " No clips yet.\n Paste a path, or press o\n to open a video or a directory.",
            (true, _) => " looking for videos …",
            (false, _) => " no match\n Esc clears the filter.",
        };
        frame.render_widget(Paragraph::new(words).style(dim), inner);
        return None;
    }
    let rows = usize::from(inner.height);
    let top = window_top(library.cursor, library.shown.len(), rows);
    let columns = usize::from(inner.width);
    let visible: Vec<&Entry> =
        library.shown.iter().skip(top).take(rows).map(|index| &library.entries[*index]).collect();
    let shared = |entry: &Entry| visible.iter().filter(|other| other.title == entry.title).count() > 1;
    // Directories are shown in every line or in none, except those that distinguish files of one name.
    let dirs = visible.iter().all(|entry| {
        let room = columns.saturating_sub(2 + text::width(&right(entry)) + text::width(&entry.title));
        room >= text::width(&tag(model, entry).state) + for_dir(entry)
    });
    let lines = visible.iter().enumerate().map(|(at, entry)| {
        let dir = if shared(entry) { for_dir(entry) } else { 0 };
        let shows = (dirs || dir > 0, dir);
        if let Some(moment) = library.best_moment(entry) {
            return moment_line(entry, moment, tag(model, entry), top + at == library.cursor, columns, theme);
        }
        entry_line(entry, tag(model, entry), shows, top + at == library.cursor, columns, theme)
    });
    for (at, y) in (top..top + visible.len()).zip(inner.y..) {
        frame.mark(Rect { y, height: 1, ..inner }, Target::Row(at));
    }
    let style = theme.style(if focused { Role::Selection } else { Role::SelectionDim });
    let list = List::new(lines).highlight_style(style);
    let mut state = ListState::default().with_selected(Some(library.cursor - top));
    frame.render_stateful_widget(list, inner, &mut state);
    thumbnail(model, theme, frame, foot)
}

struct Tag {
    marked: bool,
    /// Its position in the queue, or that it was captioned.
    state: String,
    role: Role,
}

fn tag(model: &Model, entry: &Entry) -> Tag {
    let queued = model.queue.clips.iter().position(|waiting| waiting.request.video == entry.path);
    let (state, role) = match queued {
        Some(at) => (format!(" +{}", at + 1), Role::Accent),
        None if model.library.captioned.contains(&entry.path) => (" ✓".into(), Role::Good),
        None => (String::new(), Role::Dim),
    };
    Tag { marked: model.library.marked.contains(&entry.path), state, role }
}

fn for_dir(entry: &Entry) -> usize {
    if entry.dir.is_empty() { 0 } else { LEAST_DIR.min(text::width(&entry.dir) + 3) }
}

fn right(entry: &Entry) -> String {
    let seconds = entry.facts().and_then(|f| f.seconds).map(text::clock);
    let mut right = match entry.problem() {
        Some(_) => "no video".to_owned(),
        None => seconds.unwrap_or_default(),
    };
    if let Some(bytes) = entry.bytes {
        right.push_str(&format!("{:>8}", units::bytes(bytes)));
    }
    if right.is_empty() { right } else { format!(" {} ", right.trim_start()) }
}

/// `▸ title ✓  folder      0:12  3.4 MB`: whether the folder is shown, and the columns that the title leaves to it.
fn entry_line(
    entry: &Entry,
    tag: Tag,
    (shows_dir, for_dir): (bool, usize),
    here: bool,
    columns: usize,
    theme: &Theme,
) -> Line<'static> {
    let right = right(entry);
    let room = columns.saturating_sub(2 + text::width(&right));
    let title = room.saturating_sub(text::width(&tag.state) + for_dir.min(room / 2));
    let name = text::fit(&entry.title, title);
    let left = room.saturating_sub(text::width(&name) + text::width(&tag.state));
    let dir = match entry.dir.as_str() {
        dir if dir.is_empty() || !shows_dir => String::new(),
        dir if left > text::width(dir) + 2 => format!("  {dir}"),
        dir if left > 8 => format!("  {}", text::fit_end(dir, left - 3)),
        _ => String::new(),
    };
    let fill = " ".repeat(left.saturating_sub(text::width(&dir)));
    let dim = theme.style(Role::Dim);
    let named = if entry.problem().is_some() { dim } else { Style::new() };
    // The selection's colors replace these.
    let dim = if here { Style::new() } else { dim };
    let of = |role| if here { Style::new() } else { theme.style(role) };
    Line::from(vec![
        Span::raw(if here { "▸" } else { " " }),
        if tag.marked { Span::styled("*", of(Role::Accent)) } else { Span::raw(" ") },
        Span::styled(name, named),
        Span::styled(tag.state, of(tag.role)),
        Span::styled(format!("{dir}{fill}{right}"), dim),
    ])
}

/// `▸ title ✓  0:12 …a red van turns…`, of a clip that was found by what is in it.
fn moment_line(
    entry: &Entry,
    moment: &Moment,
    tag: Tag,
    here: bool,
    columns: usize,
    theme: &Theme,
) -> Line<'static> {
    let room = columns.saturating_sub(2 + text::width(&tag.state));
    let name = text::fit(&entry.title, room / 2);
    let time = format!(" {} ", clock(moment.start));
    let mut left = room.saturating_sub(text::width(&name) + text::width(&time));
    let of = |role| if here { Style::new() } else { theme.style(role) };
    let mut spans = vec![
        Span::raw(if here { "▸" } else { " " }),
        if tag.marked { Span::styled("*", of(Role::Accent)) } else { Span::raw(" ") },
        Span::raw(name),
        Span::styled(tag.state, of(tag.role)),
        Span::styled(time, of(Role::Accent)),
    ];
    for part in &moment.parts {
        let words = text::fit(&text::clean_line(&part.text), left);
        left = left.saturating_sub(text::width(&words));
        spans.push(Span::styled(words, of(if part.is_match { Role::Title } else { Role::Dim })));
    }
    spans.push(Span::raw(" ".repeat(left)));
    Line::from(spans)
}

/// The picture of the selected clip, or why there is none.
fn thumbnail(model: &Model, theme: &Theme, frame: &mut Frame<'_>, area: Rect) -> Option<Slot> {
    if let Some(problem) = model.library.selected()?.problem() {
        let inside = Rect { x: area.x + 1, width: area.width.saturating_sub(2), ..area };
        let mut lines = wrap([(problem, theme.style(Role::Bad))], inside.width.into());
        cut(&mut lines, inside.height.into(), inside.width.into());
        frame.render_widget(Paragraph::new(lines), inside);
        return None;
    }
    let strip = model.library.strips.get(&preview::thumbnail(&model.library.selected()?.path))?;
    picture(strip.frames.first()?, model.config.colors, frame, area)
}
