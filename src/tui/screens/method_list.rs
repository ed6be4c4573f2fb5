//! What the lists of methods have in common: rows by system, and keys that change the method under the cursor.

use ratatui::layout::Constraint::{Fill, Length};
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Row;

use super::{method_editor::MethodEditor, save_method};
use crate::look::{Action, KeyContext, Role, Theme};
use crate::tui::model::{Model, Tone, Turn, methods::Methods};
use crate::tui::widgets::{Frame, cell_columns, list_of, mark, typed_after};
use crate::tui::{picker::Picker, text, update::methods::note_knob};
use specreel_client::present::systems::system;

/// Columns of a row: the sign before a name, and whether it is lossless.
const SIGN: u16 = 4;
const MARK: u16 = 10;

/// The method under the cursor.
pub(super) fn under(picker: &Picker, methods: &Methods) -> Option<usize> {
    methods.found(picker.query()).0.get(picker.cursor).copied()
}

/// What keys do to the method under the cursor, in any list of methods.
pub(super) fn act(picker: &Picker, context: KeyContext, action: Action, model: &mut Model) -> Turn {
    let Some(index) = under(picker, &model.methods) else { return Turn::Pass };
    // Its parameters are those that are adjusted.
    let choose = |model: &mut Model| {
        if index != model.methods.chosen {
            model.methods.choose(index);
        }
    };
    match action {
        Action::Edit => {
            model.methods.choose(index);
            return Turn::open(MethodEditor::default());
        }
        Action::Save => {
            model.methods.choose(index);
            return save_method::open(model);
        }
        Action::Reset => reset(model, index),
        Action::KnobUp | Action::KnobDown => {
            choose(model);
            let words = match model.methods.turn(action == Action::KnobUp) {
                Some(knob) => knob.to_string(),
                None => "this method has no adjustable parameter".into(),
            };
            model.note(Tone::Info, words);
        }
        Action::NextKnob => {
            choose(model);
            model.methods.next_knob();
            note_knob(model, context);
        }
        _ => return Turn::Pass,
    }
    Turn::Stay
}

/// Undo all changes of a method.
pub(super) fn reset(model: &mut Model, index: usize) {
    let words = match model.methods.reset(index) {
        true => format!("{} reset", model.methods.label(index)),
        false => "this method is unchanged".to_owned(),
    };
    model.note(Tone::Info, words);
}

/// The filter as it is typed, above the list, which may have nothing in it.
pub(super) fn filter(
    picker: &Picker,
    finds_nothing: bool,
    theme: &Theme,
    frame: &mut Frame<'_>,
    [above, list]: [Rect; 2],
) {
    typed_after("filter ", &picker.line, theme, frame, above);
    if finds_nothing {
        frame.render_widget(theme.line(Role::Dim, "no match"), list);
    }
}

enum Listed {
    System(&'static str),
    Method(usize),
}

fn lines(methods: &Methods, indices: &[usize]) -> Vec<Listed> {
    let mut lines = Vec::new();
    let mut last = "";
    for index in indices {
        let system = system(&methods.presets[*index]);
        if system != last {
            lines.push(Listed::System(system));
        }
        last = system;
        lines.push(Listed::Method(*index));
    }
    lines
}

/// The lines of the whole list, with the headings.
pub(super) fn all_lines(methods: &Methods) -> u16 {
    lines(methods, &methods.found("").0).len() as u16
}

/// The columns of the names of methods.
fn name_columns(methods: &Methods) -> u16 {
    let all = 0..methods.turned.len();
    all.map(|i| text::width(&methods.label(i))).max().unwrap_or(0).clamp(12, 30) as u16
}

/// The columns of the longest row of methods.
pub(super) fn row_columns(model: &Model) -> usize {
    let all = 0..model.methods.turned.len();
    let about = all.map(|i| text::width(&about(model, i))).max().unwrap_or(0);
    usize::from(name_columns(&model.methods) + SIGN + MARK) + 4 + about
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
pub(super) fn grouped(
    model: &Model,
    (indices, cursor): (&[usize], usize),
    theme: &Theme,
    frame: &mut Frame<'_>,
    area: Rect,
    sign: impl Fn(usize) -> &'static str,
) {
    let methods = &model.methods;
    let names = name_columns(methods);
    let widths = [Length(names + SIGN), Length(MARK), Fill(1)];
    let columns = cell_columns(area, &widths);
    let lines = lines(methods, indices);
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
