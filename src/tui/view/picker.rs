//! Lists over the panes: the method picker, the prepared prompts, and the line for a path.

use ratatui::{
    Frame,
    layout::Rect,
    style::Style,
    text::{Line, Span},
    widgets::Paragraph,
};

use super::{caption, place_in_list, popup, typed, window_top, wrap::wrap};
use crate::{
    speculate::method::Value as Takes,
    tui::{
        Theme,
        export::Format,
        model::{
            Model,
            edit::{Row, rows},
            methods,
        },
        text,
        theme::Role,
    },
};

/// Lines of what a method is for.
const ABOUT: usize = 2;
/// So many names of what a path could become are shown.
const MOST_FOUND: usize = 8;

/// The methods, and below them the five choices of the one under the cursor.
pub(super) fn methods(model: &Model, cursor: usize, theme: &Theme, frame: &mut Frame<'_>) {
    let list = &model.methods;
    let n = list.turned.len();
    // On a low screen the list is worth more than all that is known of one of its lines.
    let tall = frame.area().height >= 24;
    let details = if tall { 1 + ABOUT + 7 } else { 1 + ABOUT };
    let height = (n + details + 2).min(usize::from(frame.area().height)) as u16;
    let (area, inner) = popup(frame, theme, 96, height, "Method");
    let rows = usize::from(inner.height).saturating_sub(details).max(1);
    place_in_list(cursor, n, rows, theme, frame, area);
    let columns = usize::from(inner.width);
    let top = window_top(cursor, n, rows);
    let names = (0..n).map(|i| text::width(&list.label(i))).max().unwrap_or(0).clamp(12, 30);
    let dim = theme.style(Role::Dim);
    let mut lines = Vec::new();
    for (i, method) in list.turned.iter().enumerate().skip(top).take(rows) {
        let here = i == cursor;
        let lossless = list.is_lossless(method);
        let of = |style: Style| if here { Style::new() } else { style };
        let line = Line::from(vec![
            Span::raw(if i == list.chosen { "● " } else { "  " }),
            Span::raw(text::pad(&list.label(i), names)),
            Span::styled(
                format!("  {}", text::pad(caption::mark(lossless), 12)),
                of(caption::mark_style(lossless, theme)),
            ),
            Span::styled(
                text::pad(&text::clean_line(&method.about), columns.saturating_sub(names + 16)),
                of(dim),
            ),
        ]);
        lines.push(if here { line.style(theme.style(Role::Selection)) } else { line });
    }
    let used = lines.len() as u16;
    frame.render_widget(Paragraph::new(lines), Rect { height: used.min(inner.height), ..inner });
    let below =
        Rect { y: inner.y + used.min(inner.height), height: inner.height.saturating_sub(used), ..inner };
    if let Some(method) = list.turned.get(cursor) {
        let rule = Line::styled("─".repeat(columns), theme.style(Role::Border));
        let mut lines = vec![rule];
        let about = text::clean_line(&method.about);
        let about = wrap([(about.as_str(), Style::new())], columns);
        lines.extend((0..ABOUT).map(|i| about.get(i).cloned().unwrap_or_default()));
        for (axis, choice) in methods::choices(method) {
            lines.push(Line::from(vec![
                Span::styled(text::pad(axis, 13), dim),
                Span::raw(text::fit(&text::clean_line(&choice), columns.saturating_sub(13))),
            ]));
        }
        if let Some(paper) = &method.paper {
            lines.push(Line::from(vec![
                Span::styled(text::pad("from", 13), dim),
                Span::raw(text::fit(&text::clean_line(paper), columns.saturating_sub(13))),
            ]));
        }
        if cursor == list.chosen {
            lines.push(knobs(model, theme));
        }
        frame.render_widget(Paragraph::new(lines), below);
    }
}

/// The methods of a comparison: those picked have a mark.
pub(super) fn pick(model: &Model, cursor: usize, theme: &Theme, frame: &mut Frame<'_>) {
    let list = &model.methods;
    let n = list.turned.len();
    let (area, inner) = popup(frame, theme, 84, (n as u16).saturating_add(2), "Compare");
    let rows = usize::from(inner.height).max(1);
    place_in_list(cursor, n, rows, theme, frame, area);
    let columns = usize::from(inner.width);
    let names = (0..n).map(|i| text::width(&list.label(i))).max().unwrap_or(0).clamp(12, 30);
    let mut lines = Vec::new();
    for (i, method) in list.turned.iter().enumerate().skip(window_top(cursor, n, rows)).take(rows) {
        let here = i == cursor;
        let of = |style: Style| if here { Style::new() } else { style };
        let lossless = list.is_lossless(method);
        let picked = model.picked.get(i) == Some(&true) || methods::is_autoregressive(method);
        let line = Line::from(vec![
            Span::styled(if picked { "[x] " } else { "[ ] " }, of(theme.style(Role::Accent))),
            Span::raw(text::pad(&list.label(i), names)),
            Span::styled(
                format!("  {}", text::pad(caption::mark(lossless), 12)),
                of(caption::mark_style(lossless, theme)),
            ),
            Span::styled(
                text::pad(&text::clean_line(&method.about), columns.saturating_sub(names + 18)),
                of(theme.style(Role::Dim)),
            ),
        ]);
        lines.push(if here { line.style(theme.style(Role::Selection)) } else { line });
    }
    frame.render_widget(Paragraph::new(lines), inner);
}

/// The numbers that can be turned, the active one marked.
fn knobs(model: &Model, theme: &Theme) -> Line<'static> {
    let active = model.methods.active_knob();
    let mut line = Line::from(Span::styled(text::pad("[ ] turn", 13), theme.style(Role::Dim)));
    let knobs = model.methods.knobs();
    if knobs.is_empty() {
        line.push_span(Span::styled("nothing", theme.style(Role::Dim)));
    }
    for knob in knobs {
        let here = active.as_ref().is_some_and(|a| a.is_same(&knob));
        let style = theme.style(if here { Role::Accent } else { Role::Dim });
        let edge = if here { ("‹", "›") } else { (" ", " ") };
        line.push_span(Span::styled(format!("{}{knob}{} ", edge.0, edge.1), style));
    }
    line
}

/// The prepared prompts.
pub(super) fn presets(model: &Model, cursor: usize, theme: &Theme, frame: &mut Frame<'_>) {
    let n = model.presets.len();
    let (area, inner) = popup(frame, theme, 84, (n as u16).saturating_add(5), "Prompts");
    let below = 3.min(inner.height.saturating_sub(1));
    let rows = usize::from(inner.height - below);
    let columns = usize::from(inner.width);
    let top = window_top(cursor, n, rows);
    place_in_list(cursor, n, rows, theme, frame, area);
    let mut lines: Vec<Line<'static>> = Vec::new();
    for (i, preset) in model.presets.iter().enumerate().skip(top).take(rows) {
        let here = i == cursor;
        let dim = if here { Style::new() } else { theme.style(Role::Dim) };
        let line = Line::from(vec![
            Span::raw(text::pad(&text::clean_line(&preset.name), 14)),
            Span::styled(text::pad(&text::clean_line(&preset.text), columns.saturating_sub(14)), dim),
        ]);
        lines.push(if here { line.style(theme.style(Role::Selection)) } else { line });
    }
    frame.render_widget(Paragraph::new(lines), Rect { height: rows as u16, ..inner });
    if let Some(preset) = model.presets.get(cursor) {
        let at = Rect { y: inner.bottom() - below, height: below, ..inner };
        let mut lines = vec![Line::styled("─".repeat(columns), theme.style(Role::Border))];
        lines.extend(wrap([(text::clean(&preset.text).as_str(), Style::new())], columns));
        frame.render_widget(Paragraph::new(lines), at);
    }
}

/// The kinds of files for a run.
pub(super) fn export(formats: &[Format], cursor: usize, theme: &Theme, frame: &mut Frame<'_>) {
    let (_, inner) = popup(frame, theme, 84, formats.len() as u16 + 2, "Save this run as");
    let columns = usize::from(inner.width);
    let line = |(i, format): (usize, &Format)| {
        let here = i == cursor;
        let dim = if here { Style::new() } else { theme.style(Role::Dim) };
        let line = Line::from(vec![
            Span::raw(text::pad(format.name(), 12)),
            Span::styled(text::pad(format.about(), columns.saturating_sub(12)), dim),
        ]);
        if here { line.style(theme.style(Role::Selection)) } else { line }
    };
    let lines: Vec<_> = formats.iter().enumerate().map(line).collect();
    frame.render_widget(Paragraph::new(lines), inner);
}

/// The prompts that were run, those that go with the search.
pub(super) fn history(model: &Model, query: &str, cursor: usize, theme: &Theme, frame: &mut Frame<'_>) {
    let found = model.prompt.found(query);
    let n = found.len();
    let (area, inner) = popup(frame, theme, 96, 22.min(n.max(1) as u16 + 6), "Earlier prompts");
    let columns = usize::from(inner.width);
    let dim = theme.style(Role::Dim);
    let below = 3.min(inner.height.saturating_sub(2));
    let rows = usize::from(inner.height - below - 1);
    place_in_list(cursor, n, rows, theme, frame, area);
    let mut search = vec![Span::styled("search ", dim)];
    search.extend(typed(query, model.caret, columns.saturating_sub(7), theme));
    let mut lines = vec![Line::from(search)];
    if found.is_empty() {
        let words = if query.is_empty() { "No prompt was run yet." } else { "None of them goes with this." };
        lines.push(Line::styled(words, dim));
    }
    for (i, prompt) in found.iter().enumerate().skip(window_top(cursor, n, rows)).take(rows) {
        let line = Line::raw(text::pad(&text::clean_line(prompt), columns));
        lines.push(if i == cursor { line.style(theme.style(Role::Selection)) } else { line });
    }
    frame.render_widget(Paragraph::new(lines), Rect { height: rows as u16 + 1, ..inner });
    if let Some(prompt) = found.get(cursor) {
        let at = Rect { y: inner.bottom() - below, height: below, ..inner };
        let mut lines = vec![Line::styled("─".repeat(columns), theme.style(Role::Border))];
        lines.extend(wrap([(*prompt, Style::new())], columns));
        frame.render_widget(Paragraph::new(lines), at);
    }
}

/// A line that is typed: a name, a number, a question.
pub(super) fn line(model: &Model, title: &str, line: &str, theme: &Theme, frame: &mut Frame<'_>) {
    let (_, inner) = popup(frame, theme, 76, 3, title);
    frame.render_widget(Line::from(typed(line, model.caret, inner.width.into(), theme)), inner);
}

/// A path that is typed, and what it could become.
pub(super) fn path(model: &Model, line: &str, found: &[String], theme: &Theme, frame: &mut Frame<'_>) {
    let shown = found.len().min(MOST_FOUND);
    let more = found.len() - shown;
    let rows = 3 + shown as u16 + u16::from(more > 0);
    let (_, inner) = popup(frame, theme, 76, rows, "Open a file or a folder");
    let columns = usize::from(inner.width);
    let dim = theme.style(Role::Dim);
    let mut lines = vec![Line::from(typed(line, model.caret, columns, theme))];
    lines.extend(found.iter().take(shown).map(|name| Line::styled(text::fit(name, columns), dim)));
    if more > 0 {
        lines.push(Line::styled(format!("… and {more} more"), dim));
    }
    frame.render_widget(Paragraph::new(lines), inner);
}

/// The value of a key of the chosen method.
pub(super) fn value(model: &Model, row: usize, line: &str, theme: &Theme, frame: &mut Frame<'_>) {
    let Some(method) = model.methods.current() else { return };
    let Some(Row::Key(axis, key)) = rows(method).get(row).copied() else { return };
    let title = format!("{} · {}", axis.name, key.name.replace('_', " "));
    let (_, inner) = popup(frame, theme, 76, 4, &title);
    let columns = usize::from(inner.width);
    let takes = match key.value {
        Takes::Flag => "yes or no".into(),
        Takes::Words => "words with commas between them".into(),
        other => other.words(),
    };
    let empty = if key.required { "" } else { "; nothing is as usual" };
    let hint = format!("{takes}, for example {}{empty}", key.example);
    let lines = vec![
        Line::from(typed(line, model.caret, columns, theme)),
        Line::styled(text::fit(&hint, columns), theme.style(Role::Dim)),
    ];
    frame.render_widget(Paragraph::new(lines), inner);
}
