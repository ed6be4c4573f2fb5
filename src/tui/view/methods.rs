//! Lists of methods by system: the picker, and the methods of a comparison.

use super::*;
use crate::tui::model::methods;
use specreel_client::present::systems::system;

const ABOUT: u16 = 2;
const NAME: usize = 13;
/// Columns of a row: the sign before a name, and whether it is lossless.
const SIGN: u16 = 4;
const MARK: u16 = 10;

/// The methods that match the filter, and below them the five choices of the one under the cursor.
pub(super) fn draw(model: &Model, query: &str, cursor: usize, theme: &Theme, frame: &mut Frame<'_>) {
    let methods = &model.methods;
    let (found, _) = methods.found(query);
    // On a low screen the list matters more than the details of one method. The box keeps its size while the filter is typed.
    let details = 1 + ABOUT + if frame.area().height >= 24 { 7 } else { 0 };
    let all = lines(model, &methods.found("").0).len() as u16;
    let columns = around(row_columns(model), 96);
    let inner = popup(frame, theme, columns, all + details + 3, dialog("Method", theme));
    let [above, middle, below] = inner.layout(&Layout::vertical([Length(1), Min(1), Length(details)]));
    let dim = theme.style(Role::Dim);
    filter(model, (query, found.is_empty()), theme, frame, [above, middle]);
    let sign = |i: usize| if i == methods.chosen { "● " } else { "  " };
    grouped(model, (&found, cursor), theme, frame, middle, sign);
    frame.render_widget(rule(theme), below);
    let Some(index) = found.get(cursor).copied() else { return };
    let method = &methods.turned[index];
    // In a long group the heading is above the visible part of the list.
    let heading = format!(" {} ", system(&methods.presets[index]));
    let wide = (text::width(&heading) as u16).min(below.width.saturating_sub(2));
    let place = Rect { x: below.x + 2.min(below.width), width: wide, height: 1.min(below.height), ..below };
    frame.render_widget(theme.span(Role::Title, heading), place);
    // A missing model matters more than the description.
    let about = match model.unavailable(index) {
        Some(why) => Paragraph::new(text::clean_line(&why)).style(theme.style(Role::Warn)),
        None => Paragraph::new(text::clean_line(&method.about)),
    };
    let about = about.wrap(Wrap { trim: true });
    let [_, at, below] = below.layout(&Layout::vertical([Length(1), Length(ABOUT), Min(0)]));
    frame.render_widget(about, at);
    let named = |name: &str, words: &str| {
        let words = text::fit(&text::clean_line(words), usize::from(below.width).saturating_sub(NAME));
        Line::from(vec![Span::styled(text::pad(name, NAME), dim), Span::raw(words)])
    };
    let mut lines: Vec<_> =
        methods::choices(method).into_iter().map(|(axis, choice)| named(axis, &choice)).collect();
    lines.extend(method.paper.as_ref().map(|paper| named("from", paper)));
    if index == methods.chosen {
        lines.push(parameters(model, theme));
    }
    frame.render_widget(Paragraph::new(lines), below);
}

/// The filter as it is typed, above the list, which may have nothing in it.
fn filter(
    model: &Model,
    (query, finds_nothing): (&str, bool),
    theme: &Theme,
    frame: &mut Frame<'_>,
    [above, list]: [Rect; 2],
) {
    typed_after("filter ", model, query, theme, frame, above);
    if finds_nothing {
        frame.render_widget(theme.line(Role::Dim, "no match"), list);
    }
}

pub(super) fn pick(model: &Model, query: &str, cursor: usize, theme: &Theme, frame: &mut Frame<'_>) {
    let (found, _) = model.methods.found(query);
    let rows = lines(model, &model.methods.found("").0).len() as u16;
    let columns = around(row_columns(model), 84);
    let inner = popup(frame, theme, columns, rows.saturating_add(3), dialog("Compare", theme));
    let [above, list] = inner.layout(&Layout::vertical([Length(1), Min(1)]));
    filter(model, (query, found.is_empty()), theme, frame, [above, list]);
    grouped(model, (&found, cursor), theme, frame, list, |i| {
        let is_baseline = model.methods.turned[i].is_autoregressive();
        if model.picked.get(i) == Some(&true) || is_baseline { "[x] " } else { "[ ] " }
    });
}

enum Listed {
    System(&'static str),
    Method(usize),
}

fn lines(model: &Model, methods: &[usize]) -> Vec<Listed> {
    let mut lines = Vec::new();
    let mut last = "";
    for index in methods {
        let system = system(&model.methods.presets[*index]);
        if system != last {
            lines.push(Listed::System(system));
        }
        last = system;
        lines.push(Listed::Method(*index));
    }
    lines
}

/// The columns of the names of methods.
fn name_columns(model: &Model) -> u16 {
    let all = 0..model.methods.turned.len();
    all.map(|i| text::width(&model.methods.label(i))).max().unwrap_or(0).clamp(12, 30) as u16
}

/// The columns of the longest row of methods.
fn row_columns(model: &Model) -> usize {
    let all = 0..model.methods.turned.len();
    let about = all.map(|i| text::width(&about(model, i))).max().unwrap_or(0);
    usize::from(name_columns(model) + SIGN + MARK) + 4 + about
}

/// The description of a method, or why the models cannot run it.
fn about(model: &Model, index: usize) -> String {
    let method = &model.methods.turned[index];
    text::clean_line(&match model.unavailable(index) {
        Some(why) => format!("not now: it {}", why.trim_start_matches(&format!("method `{}` ", method.name))),
        None => method.about.clone(),
    })
}

/// A line for each method under its system's heading: a sign, its name, whether it is lossless, and its description.
fn grouped(
    model: &Model,
    (indices, cursor): (&[usize], usize),
    theme: &Theme,
    frame: &mut Frame<'_>,
    area: Rect,
    sign: impl Fn(usize) -> &'static str,
) {
    let methods = &model.methods;
    let names = name_columns(model);
    let widths = [Length(names + SIGN), Length(MARK), Fill(1)];
    let columns = cell_columns(area, &widths);
    let lines = lines(model, indices);
    let at = indices.get(cursor).and_then(|under| {
        lines.iter().position(|line| matches!(line, Listed::Method(index) if index == under))
    });
    let here = (at.unwrap_or(0), lines.len());
    let entry = |line: usize| match lines[line] {
        Listed::System(_) => None,
        Listed::Method(method) => indices.iter().position(|index| *index == method),
    };
    list_of(frame, theme, area, here, (None, &widths), entry, |row| match lines[row] {
        Listed::System(name) => Row::new([theme.line(Role::Title, name)]),
        Listed::Method(index) => {
            let method = &methods.turned[index];
            let dim = theme.style(Role::Dim);
            let name = text::fit(&methods.label(index), names.into());
            let (why, about) = (model.unavailable(index), about(model, index));
            let mark = mark(method.lossless(), theme);
            let (name, mark) = match why {
                Some(_) => (Span::styled(name, dim), mark.style(dim)),
                None => (Span::raw(name), mark),
            };
            Row::new([
                Line::from(vec![theme.span(Role::Accent, sign(index)), name]),
                mark.into(),
                Span::styled(text::fit(&about, columns[2]), dim).into(),
            ])
        }
    });
}

/// The adjustable parameters, the active one marked, and the keys that adjust it.
fn parameters(model: &Model, theme: &Theme) -> Line<'static> {
    let dim = theme.style(Role::Dim);
    let active = model.methods.active_knob();
    let keys = model.keymap.shown(KeyContext::Methods, &[Action::KnobDown, Action::KnobUp]);
    let mut line = Line::from(Span::styled(text::pad(&format!("{keys} adjust"), NAME), dim));
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
    if model.methods.knobs().len() > 1 {
        let next = model.keymap.shown(KeyContext::Methods, &[Action::NextKnob]);
        line.push_span(Span::styled(format!(" {next} next"), dim));
    }
    line
}

#[cfg(test)]
mod tests {
    use crate::tui::{Msg, Studio, StudioConfig, testing};
    use specreel_speculate::Method;

    #[test]
    fn descriptions_are_whole_on_a_wide_screen() {
        let config = StudioConfig { methods: Method::presets().to_vec(), ..testing::config() };
        let (mut studio, _) = Studio::new(&config).unwrap();
        studio.handle(testing::ready_event());
        studio.handle(Msg::Resize(180, 120));
        for keys in ["m", "esc c"] {
            testing::press(&mut studio, keys);
            let screen = testing::screen(&studio, 180, 120);
            let is_method = |line: &&str| line.contains(" lossless ") || line.contains(" lossy ");
            let rows: Vec<&str> = screen.lines().filter(is_method).collect();
            assert!(rows.len() >= Method::presets().len(), "{screen}");
            assert!(rows.iter().all(|row| !row.contains('…')), "{screen}");
        }
    }
}
