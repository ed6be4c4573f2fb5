//! The saved sessions: a list, and the caption of the one under the cursor.

use ratatui::{
    Frame,
    layout::Rect,
    style::Style,
    text::{Line, Span},
    widgets::Paragraph,
};

use super::{caption, place_in_list, popup, typed, window_top, wrap::wrap};
use crate::{
    record::{StopReason, units},
    tui::{
        Action, KeyContext, Theme,
        archive::{Ended, SessionEntry},
        model::{Model, Overlay},
        text,
        theme::Role,
    },
};

/// Columns of the numbers, the age, and the sign between them.
const FIXED: usize = 10 + 3 + 8 + 9 + 7 + 7;
/// Columns of the size, and least ones of the names beside which it is shown.
const SIZE: usize = 9;
const ROOMY: usize = 32;

/// Columns of the clip and of the method, and whether the file's size stands behind them.
#[derive(Clone, Copy)]
struct Widths {
    clip: usize,
    method: usize,
    size: bool,
}

impl Widths {
    fn of(columns: usize) -> Self {
        let size = columns >= FIXED + ROOMY + SIZE;
        let names = columns.saturating_sub(FIXED + if size { SIZE } else { 0 });
        let method = (names / 2).clamp(6, 22);
        Self { clip: names.saturating_sub(method).max(6), method, size }
    }
}

pub(super) fn draw(model: &Model, theme: &Theme, frame: &mut Frame<'_>) {
    let (area, inner) = popup(frame, theme, 104, frame.area().height, "Saved runs");
    let columns = usize::from(inner.width);
    let dim = theme.style(Role::Dim);
    let list = &model.sessions;
    let Some(entries) = list.entries.as_ref().filter(|e| !e.is_empty()) else {
        let words = match (&list.entries, &list.folder) {
            (None, _) => "reading …".to_owned(),
            (_, folder) => {
                let place = folder.as_ref().map(|f| text::clean_line(&f.to_string_lossy()));
                format!("Nothing yet. Every run is kept as a file in {}", place.unwrap_or_default())
            }
        };
        frame.render_widget(Paragraph::new(wrap([(words.as_str(), dim)], columns)), inner);
        return;
    };
    foot(model, entries, theme, frame, area);
    let shown: Vec<&SessionEntry> = list.shown.iter().filter_map(|i| entries.get(*i)).collect();
    let below = (inner.height / 3).clamp(4, 10);
    let rows = usize::from(inner.height.saturating_sub(below + 1)).max(1);
    place_in_list(list.cursor, shown.len(), rows, theme, frame, area);
    let widths = Widths::of(columns);
    let head = format!(
        "{:<10}{}{}{:>8}{:>9}{:>7}{:>7}{}",
        "",
        text::pad("clip", widths.clip),
        text::pad("method", widths.method + 3),
        "tokens",
        "tok/s",
        "tau",
        "loose",
        if widths.size { "     size" } else { "" }
    );
    let mut lines = vec![Line::styled(text::fit(&head, columns), dim)];
    let top = window_top(list.cursor, shown.len(), rows);
    if shown.is_empty() {
        lines.push(Line::styled("None of them says this.", dim));
    }
    for (i, entry) in shown.into_iter().enumerate().skip(top).take(rows) {
        lines.push(line(entry, i == list.cursor, widths, columns, theme));
    }
    frame.render_widget(Paragraph::new(lines), Rect { height: rows as u16 + 1, ..inner });
    if let Some(entry) = list.selected() {
        let at = Rect { y: inner.bottom() - below, height: below, ..inner };
        frame.render_widget(Paragraph::new(details(model, entry, columns, theme)), at);
    }
}

/// On the lower border: the filter, and what all take on the disk.
fn foot(model: &Model, entries: &[SessionEntry], theme: &Theme, frame: &mut Frame<'_>, area: Rect) {
    let at = Rect { x: area.x + 2, y: area.bottom() - 1, width: area.width.saturating_sub(4), height: 1 };
    let dim = theme.style(Role::Dim);
    let (n, bytes) = (entries.len(), entries.iter().map(|e| e.bytes).sum());
    let words = format!(" {n} {}, {} ", if n == 1 { "run" } else { "runs" }, units::bytes(bytes));
    let room = usize::from(at.width).saturating_sub(text::width(&words) + 6);
    frame.render_widget(Line::from(Span::styled(words, dim)).right_aligned(), at);
    let (filter, is_typed) = (&model.sessions.filter, model.layer == Some(Overlay::SessionFilter));
    if is_typed || !filter.is_empty() {
        let mut words = vec![Span::styled(" / ", theme.style(Role::Key))];
        match is_typed {
            true => words.extend(typed(filter, model.caret, room, theme)),
            false => words.push(Span::raw(text::fit_end(filter, room))),
        }
        words.push(Span::raw(" "));
        frame.render_widget(Line::from(words), at);
    }
}

/// One run.
fn line(entry: &SessionEntry, here: bool, widths: Widths, columns: usize, theme: &Theme) -> Line<'static> {
    let of = |style: Style| if here { Style::new() } else { style };
    let dim = of(theme.style(Role::Dim));
    let stats = &entry.stats;
    let mut spans = vec![
        Span::styled(format!("{:>7}   ", text::ago(entry.age_s)), dim),
        Span::raw(text::pad(&text::fit(&entry.name(), widths.clip - 1), widths.clip)),
        Span::raw(text::pad(&entry.method, widths.method)),
        Span::styled(
            if entry.lossless { " = " } else { " ≈ " },
            of(caption::mark_style(entry.lossless, theme)),
        ),
    ];
    match &entry.ended {
        Ended::Done(_) | Ended::Open if stats.steps > 0 => {
            let (tau, loose) = match stats.judged {
                0 => ("–".to_owned(), "–".to_owned()),
                _ => (format!("{:.2}", stats.tau), format!("{:.0} %", 100.0 * stats.loosened_share())),
            };
            let (tokens, speed) = (stats.emitted, stats.tokens_per_second);
            spans.push(Span::raw(format!("{tokens:>8}{speed:>9.1}{tau:>7}{loose:>7}")));
        }
        Ended::Done(_) => spans.push(Span::styled(format!("{:>31}", "cancelled"), dim)),
        Ended::Failed(_) => spans.push(Span::styled(format!("{:>31}", "failed"), of(theme.style(Role::Bad)))),
        Ended::Open => spans.push(Span::styled(format!("{:>31}", "cut off"), of(theme.style(Role::Warn)))),
    }
    if widths.size {
        spans.push(Span::styled(format!("{:>SIZE$}", units::bytes(entry.bytes)), dim));
    }
    let mut line = Line::from(spans);
    if here {
        line.push_span(Span::raw(" ".repeat(columns.saturating_sub(line.width()))));
        line = line.style(theme.style(Role::Selection));
    }
    line
}

/// The prompt and the caption; before something is deleted, the question.
fn details(model: &Model, entry: &SessionEntry, columns: usize, theme: &Theme) -> Vec<Line<'static>> {
    let dim = theme.style(Role::Dim);
    let mut lines = vec![Line::styled("─".repeat(columns), theme.style(Role::Border))];
    if model.sessions.confirm {
        let key = |action| model.keymap.keys(KeyContext::Confirm, action).first().map(ToString::to_string);
        let (yes, no) = (key(Action::Yes).unwrap_or_default(), key(Action::Back).unwrap_or_default());
        let age = match text::ago(entry.age_s).as_str() {
            "now" => "of just now".to_owned(),
            ago => format!("of {ago} ago"),
        };
        let words = format!("Delete the run {age}, {} with {}?  ", entry.name(), entry.method);
        let asked = [
            (words.as_str(), theme.style(Role::Bad)),
            (yes.as_str(), theme.style(Role::Key)),
            (" yes   ", dim),
            (no.as_str(), theme.style(Role::Key)),
            (" no", dim),
        ];
        lines.extend(wrap(asked, columns));
        return lines;
    }
    let mut prompt = format!("{}  ", entry.prompt.replace('\n', " "));
    if let Some(before) = entry.before.first() {
        let n = entry.before.len() + 1;
        prompt = format!("{} … {prompt}({n} questions)  ", before.prompt.replace('\n', " "));
    }
    if let Some((begun, count)) = entry.pieces {
        prompt += &format!("{begun} of {count} pieces  ");
    }
    let target = format!("{} ", entry.target);
    lines.extend(wrap([(prompt.as_str(), theme.style(Role::Title)), (target.as_str(), dim)], columns));
    let (words, style) = match &entry.ended {
        Ended::Failed(words) => (format!("✗ {words}"), theme.style(Role::Bad)),
        Ended::Open if !entry.text.is_empty() => (entry.text.clone(), Style::new()),
        Ended::Open => ("The file ends in the middle; a replay shows what was written.".to_owned(), dim),
        Ended::Done(StopReason::Cancelled) if entry.text.is_empty() => ("— cancelled".to_owned(), dim),
        Ended::Done(_) => (entry.text.clone(), Style::new()),
    };
    lines.extend(wrap([(words.as_str(), style)], columns));
    lines
}
