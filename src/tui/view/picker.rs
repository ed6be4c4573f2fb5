//! Lists and input lines over the panes: presets, earlier prompts, export formats, paths, values.

use super::*;
use crate::tui::model::edit::{self, rows};
use specreel_client::present::export::Format;
use specreel_speculate::method::Value as Takes;

/// Rows of the rule and the text below a list.
const BELOW: u16 = 3;
/// At most this many completions are listed.
const MAX_COMPLETIONS: usize = 8;

fn named<'a>(name: &str, about: &str, columns: &[usize], theme: &Theme) -> Row<'a> {
    let about = theme.span(Role::Dim, text::fit(&text::clean_line(about), columns[1]));
    Row::new([Span::raw(text::fit(&text::clean_line(name), columns[0])), about])
}

/// A text below a list, under a rule.
fn below_list(words: &str, theme: &Theme, frame: &mut Frame<'_>, area: Rect) {
    let words = Paragraph::new(text::clean(words)).wrap(Wrap { trim: true });
    frame.render_widget(words.block(rule(theme)), area);
}

pub(super) fn presets(model: &Model, cursor: usize, theme: &Theme, frame: &mut Frame<'_>) {
    let n = model.config.presets.len();
    let texts = model.config.presets.iter().map(|preset| preset.text.as_str());
    let columns = around(14 + widest("", texts), 84);
    let rows = (n as u16).saturating_add(2 + BELOW);
    let inner = popup(frame, theme, columns, rows, dialog("Preset prompts", theme));
    let [above, below] = inner.layout(&Layout::vertical([Min(1), Length(BELOW)]));
    let widths = [Length(12), Fill(1)];
    let columns = cell_columns(above, &widths);
    list(frame, theme, above, (cursor, n), (None, &widths), |i| {
        named(&model.config.presets[i].name, &model.config.presets[i].text, &columns, theme)
    });
    if let Some(preset) = model.config.presets.get(cursor) {
        below_list(&preset.text, theme, frame, below);
    }
}

/// The themes; the screen behind the list is in the one under the cursor.
pub(super) fn themes(model: &Model, cursor: usize, theme: &Theme, frame: &mut Frame<'_>) {
    let n = model.themes.len();
    let inner = popup(frame, theme, 32, n as u16 + 2, dialog("Theme", theme));
    list(frame, theme, inner, (cursor, n), (None, &[Fill(1)]), |i| {
        Row::new([text::clean_line(&model.themes[i].name)])
    });
}

pub(super) fn export(
    formats: &[Format],
    sidecars: usize,
    cursor: usize,
    theme: &Theme,
    frame: &mut Frame<'_>,
) {
    let n = formats.len() + usize::from(sidecars > 0);
    let columns = around(12 + widest("", formats.iter().map(|format| format.about())), 84);
    let inner = popup(frame, theme, columns, n as u16 + 2, dialog("Export run as", theme));
    let widths = [Length(10), Fill(1)];
    let columns = cell_columns(inner, &widths);
    list(frame, theme, inner, (cursor, n), (None, &widths), |i| match formats.get(i) {
        Some(format) => named(format.name(), format.about(), &columns, theme),
        None => {
            let clips = plural(sidecars as u64, "clip");
            let about = format!("captions of {clips} of this session, a .txt next to each");
            named("sidecars", &about, &columns, theme)
        }
    });
}

pub(super) fn history(model: &Model, query: &str, cursor: usize, theme: &Theme, frame: &mut Frame<'_>) {
    let found = model.prompt.found(query);
    let n = found.len();
    let rows = 22.min(n.max(1) as u16 + 3 + BELOW);
    let inner = popup(frame, theme, 96, rows, dialog("Earlier prompts", theme));
    let dim = theme.style(Role::Dim);
    let [line, middle, below] = inner.layout(&Layout::vertical([Length(1), Min(1), Length(BELOW)]));
    typed_after("search ", model, query, theme, frame, line);
    if found.is_empty() {
        let words = if query.is_empty() { "no earlier prompts" } else { "no match" };
        frame.render_widget(Line::styled(words, dim), middle);
    }
    list(frame, theme, middle, (cursor, n), (None, &[Fill(1)]), |i| {
        Row::new([text::fit(&text::clean_line(found[i]), middle.width.into())])
    });
    if let Some(prompt) = found.get(cursor) {
        below_list(prompt, theme, frame, below);
    }
}

pub(super) fn line(model: &Model, title: &str, line: &str, theme: &Theme, frame: &mut Frame<'_>) {
    with_line(model, title, line, &[], theme, frame);
}

/// A line that is typed, with hints below it.
fn with_line(model: &Model, title: &str, line: &str, hints: &[String], theme: &Theme, frame: &mut Frame<'_>) {
    let inner = popup(frame, theme, 76, 3 + hints.len() as u16, dialog(title, theme));
    let columns = usize::from(inner.width);
    let mut lines = Text::from(Line::from(typed(line, model.caret, columns, theme)));
    lines.extend(hints.iter().map(|hint| theme.line(Role::Dim, text::fit(hint, columns))));
    frame.render_widget(lines, inner);
}

/// A path that is typed, and its completions.
pub(super) fn path(
    model: &Model,
    title: &str,
    line: &str,
    found: &[String],
    theme: &Theme,
    frame: &mut Frame<'_>,
) {
    let mut hints: Vec<String> = found.iter().take(MAX_COMPLETIONS).cloned().collect();
    if found.len() > hints.len() {
        hints.push(format!("… and {} more", found.len() - hints.len()));
    }
    with_line(model, title, line, &hints, theme, frame);
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
