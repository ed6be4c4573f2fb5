//! Lists and input lines over the panes: methods, presets, earlier prompts, export formats, paths, values.

use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    text::{Line, Span, Text},
    widgets::{Paragraph, Row, Wrap},
};

use super::{dialog, list, mark, popup, rule, typed};
use crate::{
    present::export::Format,
    speculate::{Method, method::Value as Takes},
    tui::{
        Theme,
        model::{
            Model,
            edit::{self, rows},
            methods,
        },
        text,
        theme::Role,
    },
};

/// Rows of a method's description.
const ABOUT: u16 = 2;
/// Rows of the rule and the text below a list.
const BELOW: u16 = 3;
/// At most this many completions are listed.
const MAX_COMPLETIONS: usize = 8;

/// The methods, and below them the five choices of the one under the cursor.
pub(super) fn methods(model: &Model, cursor: usize, theme: &Theme, frame: &mut Frame<'_>) {
    let methods = &model.methods;
    let n = methods.turned.len();
    // On a low screen the list matters more than the details of one method.
    let details = 1 + ABOUT + if frame.area().height >= 24 { 7 } else { 0 };
    let inner = popup(frame, theme, 96, n as u16 + details + 2, dialog("Method", theme));
    let [above, below] = inner.layout(&Layout::vertical([Constraint::Min(1), Constraint::Length(details)]));
    method_list(model, cursor, theme, frame, above, |i, _| if i == methods.chosen { "● " } else { "  " });
    let Some(method) = methods.turned.get(cursor) else { return };
    let dim = theme.style(Role::Dim);
    let about = Paragraph::new(text::clean_line(&method.about)).wrap(Wrap { trim: true });
    frame.render_widget(rule(theme), below);
    let [_, at, below] = below.layout(&Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(ABOUT),
        Constraint::Min(0),
    ]));
    frame.render_widget(about, at);
    let named = |name: &str, words: &str| {
        let words = text::fit(&text::clean_line(words), usize::from(below.width).saturating_sub(13));
        Line::from(vec![Span::styled(text::pad(name, 13), dim), Span::raw(words)])
    };
    let mut lines: Vec<_> =
        methods::choices(method).into_iter().map(|(axis, choice)| named(axis, &choice)).collect();
    lines.extend(method.paper.as_ref().map(|paper| named("from", paper)));
    if cursor == methods.chosen {
        lines.push(parameters(model, theme));
    }
    frame.render_widget(Paragraph::new(lines), below);
}

/// The methods of a comparison, with a check box each.
pub(super) fn pick(model: &Model, cursor: usize, theme: &Theme, frame: &mut Frame<'_>) {
    let n = model.methods.turned.len() as u16;
    let inner = popup(frame, theme, 84, n.saturating_add(2), dialog("Compare", theme));
    method_list(model, cursor, theme, frame, inner, |i, method| {
        let picked = model.picked.get(i) == Some(&true) || methods::is_autoregressive(method);
        if picked { "[x] " } else { "[ ] " }
    });
}

/// A line for each method: a sign, its name, whether it is lossless, and its description.
fn method_list(
    model: &Model,
    cursor: usize,
    theme: &Theme,
    frame: &mut Frame<'_>,
    area: Rect,
    sign: impl Fn(usize, &Method) -> &'static str,
) {
    let methods = &model.methods;
    let n = methods.turned.len();
    let names = (0..n).map(|i| text::width(&methods.label(i))).max().unwrap_or(0).clamp(12, 30) as u16;
    let widths = [Constraint::Length(names + 4), Constraint::Length(10), Constraint::Fill(1)];
    list(frame, theme, area, (cursor, n), (None, &widths), |i| {
        let method = &methods.turned[i];
        let about = Span::styled(text::clean_line(&method.about), theme.style(Role::Dim));
        let name = text::fit(&methods.label(i), names.into());
        Row::new([
            Line::from(vec![Span::styled(sign(i, method), theme.style(Role::Accent)), Span::raw(name)]),
            mark(methods.is_lossless(method), theme).into(),
            about.into(),
        ])
    });
}

/// The adjustable parameters, the active one marked.
fn parameters(model: &Model, theme: &Theme) -> Line<'static> {
    let dim = theme.style(Role::Dim);
    let active = model.methods.active_knob();
    let mut line = Line::from(Span::styled(text::pad("[ ] adjust", 13), dim));
    let knobs = model.methods.knobs();
    if knobs.is_empty() {
        line.push_span(Span::styled("nothing", dim));
    }
    for knob in knobs {
        let here = active.as_ref().is_some_and(|a| a.is_same(&knob));
        let style = theme.style(if here { Role::Accent } else { Role::Dim });
        let (open, close) = if here { ("‹", "›") } else { (" ", " ") };
        line.push_span(Span::styled(format!("{open}{knob}{close} "), style));
    }
    line
}

/// Names with their descriptions.
fn named<'a>(name: &str, about: &str, theme: &Theme) -> Row<'a> {
    let about = Span::styled(text::clean_line(about), theme.style(Role::Dim));
    Row::new([Span::raw(text::clean_line(name)), about])
}

/// A text below a list, under a rule.
fn below_list(words: &str, theme: &Theme, frame: &mut Frame<'_>, area: Rect) {
    let words = Paragraph::new(text::clean(words)).wrap(Wrap { trim: true });
    frame.render_widget(words.block(rule(theme)), area);
}

/// The preset prompts.
pub(super) fn presets(model: &Model, cursor: usize, theme: &Theme, frame: &mut Frame<'_>) {
    let n = model.presets.len();
    let inner =
        popup(frame, theme, 84, (n as u16).saturating_add(2 + BELOW), dialog("Preset prompts", theme));
    let [above, below] = inner.layout(&Layout::vertical([Constraint::Min(1), Constraint::Length(BELOW)]));
    let widths = [Constraint::Length(12), Constraint::Fill(1)];
    list(frame, theme, above, (cursor, n), (None, &widths), |i| {
        named(&model.presets[i].name, &model.presets[i].text, theme)
    });
    if let Some(preset) = model.presets.get(cursor) {
        below_list(&preset.text, theme, frame, below);
    }
}

/// The export formats.
pub(super) fn export(formats: &[Format], cursor: usize, theme: &Theme, frame: &mut Frame<'_>) {
    let inner = popup(frame, theme, 84, formats.len() as u16 + 2, dialog("Export run as", theme));
    let widths = [Constraint::Length(10), Constraint::Fill(1)];
    list(frame, theme, inner, (cursor, formats.len()), (None, &widths), |i| {
        named(formats[i].name(), formats[i].about(), theme)
    });
}

/// The earlier prompts that match the search.
pub(super) fn history(model: &Model, query: &str, cursor: usize, theme: &Theme, frame: &mut Frame<'_>) {
    let found = model.prompt.found(query);
    let n = found.len();
    let rows = 22.min(n.max(1) as u16 + 3 + BELOW);
    let inner = popup(frame, theme, 96, rows, dialog("Earlier prompts", theme));
    let dim = theme.style(Role::Dim);
    let [line, middle, below] = inner.layout(&Layout::vertical([
        Constraint::Length(1),
        Constraint::Min(1),
        Constraint::Length(BELOW),
    ]));
    let mut search = vec![Span::styled("search ", dim)];
    search.extend(typed(query, model.caret, usize::from(line.width).saturating_sub(7), theme));
    frame.render_widget(Line::from(search), line);
    if found.is_empty() {
        let words = if query.is_empty() { "no earlier prompts" } else { "no match" };
        frame.render_widget(Line::styled(words, dim), middle);
    }
    list(frame, theme, middle, (cursor, n), (None, &[Constraint::Fill(1)]), |i| {
        Row::new([text::fit(&text::clean_line(found[i]), middle.width.into())])
    });
    if let Some(prompt) = found.get(cursor) {
        below_list(prompt, theme, frame, below);
    }
}

/// A line that is typed: a name, a number, a question.
pub(super) fn line(model: &Model, title: &str, line: &str, theme: &Theme, frame: &mut Frame<'_>) {
    with_line(model, title, line, &[], theme, frame);
}

/// A line that is typed, with hints below it.
fn with_line(model: &Model, title: &str, line: &str, hints: &[String], theme: &Theme, frame: &mut Frame<'_>) {
    let inner = popup(frame, theme, 76, 3 + hints.len() as u16, dialog(title, theme));
    let columns = usize::from(inner.width);
    let mut lines = Text::from(Line::from(typed(line, model.caret, columns, theme)));
    lines.extend(hints.iter().map(|hint| Line::styled(text::fit(hint, columns), theme.style(Role::Dim))));
    frame.render_widget(lines, inner);
}

/// A path that is typed, and its completions.
pub(super) fn path(model: &Model, line: &str, found: &[String], theme: &Theme, frame: &mut Frame<'_>) {
    let mut hints: Vec<String> = found.iter().take(MAX_COMPLETIONS).cloned().collect();
    if found.len() > hints.len() {
        hints.push(format!("… and {} more", found.len() - hints.len()));
    }
    with_line(model, "Open a video or a directory", line, &hints, theme, frame);
}

/// The value of a key of the selected method.
pub(super) fn value(model: &Model, row: usize, line: &str, theme: &Theme, frame: &mut Frame<'_>) {
    let Some(method) = model.methods.current() else { return };
    let Some(edit::Row::Key(axis, key)) = rows(method).get(row).copied() else { return };
    let title = format!("{} · {}", axis.name, key.name.replace('_', " "));
    let takes = match key.value {
        Takes::Flag => "yes or no".into(),
        Takes::Words => "words separated by commas".into(),
        other => other.words(),
    };
    let empty = if key.required { "" } else { "; leave empty for the default" };
    let hint = format!("{takes}, for example {}{empty}", key.example);
    with_line(model, &title, line, &[hint], theme, frame);
}
