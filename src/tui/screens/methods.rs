//! The method picker: the methods that match the filter, and below them the five choices of the one under the cursor.

use ratatui::layout::Constraint::{Length, Min};
use ratatui::layout::{Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Wrap};

use super::{batch, method_list};
use crate::look::{Action, KeyContext, Role, Theme};
use crate::tui::model::{Keys, Model, Screen, Tone, Turn, methods};
use crate::tui::picker::{Move, Picker};
use crate::tui::text;
use crate::tui::widgets::{Frame, around, dialog, popup, rule};
use specreel_client::present::systems::system;

const ABOUT: u16 = 2;
const NAME: usize = 13;

#[derive(Debug)]
pub(crate) struct MethodPicker {
    pub picker: Picker,
}

impl MethodPicker {
    /// All methods, with the cursor at the chosen one.
    pub fn new(model: &Model) -> Self {
        Self { picker: Picker::at(model.methods.chosen) }
    }
}

impl Screen for MethodPicker {
    fn keys(&self, _model: &Model) -> Keys {
        use Action::{Back, Choose, Edit, KnobUp, NextKnob, Reset, Save};
        Keys::new(KeyContext::Methods, "run", &[Choose, Edit, KnobUp, NextKnob, Save, Reset, Back])
    }

    /// Run the method under the cursor.
    fn choose(&mut self, model: &mut Model) -> Turn {
        let Some(index) = method_list::under(&self.picker, &model.methods) else { return Turn::Stay };
        if let Some(why) = model.unavailable(index) {
            model.note(Tone::Bad, why);
            return Turn::Stay;
        }
        if index != model.methods.chosen {
            model.methods.choose(index);
        }
        batch::run_with_method(model);
        Turn::Leave
    }

    fn act(&mut self, action: Action, model: &mut Model) -> Turn {
        method_list::act(&self.picker, KeyContext::Methods, action, model)
    }

    fn picker(&mut self) -> Option<&mut Picker> {
        Some(&mut self.picker)
    }

    fn rows(&self, model: &Model) -> usize {
        model.methods.found(self.picker.query()).0.len()
    }

    fn go(&mut self, go: Move, model: &mut Model) {
        self.picker.cursor = go.apply(self.picker.cursor, self.rows(model), model.page());
        model.methods.knob = 0;
    }

    fn typed(&mut self, model: &mut Model) {
        self.picker.cursor = model.methods.found(self.picker.query()).1;
    }

    fn restarts_search(&self) -> bool {
        true
    }

    fn draw(&self, model: &Model, theme: &Theme, frame: &mut Frame<'_>) {
        let methods = &model.methods;
        let (found, _) = methods.found(self.picker.query());
        // On a low screen the list matters more than the details of one method. The box keeps its size while the filter is typed.
        let details = 1 + ABOUT + if frame.area().height >= 24 { 7 } else { 0 };
        let columns = around(method_list::row_columns(model), 96);
        let rows = method_list::all_lines(methods) + details + 3;
        let inner = popup(frame, theme, columns, rows, dialog("Method", theme));
        let [above, middle, below] = inner.layout(&Layout::vertical([Length(1), Min(1), Length(details)]));
        method_list::filter(&self.picker, found.is_empty(), theme, frame, [above, middle]);
        let sign = |i: usize| if i == methods.chosen { "● " } else { "  " };
        method_list::grouped(model, (&found, self.picker.cursor), theme, frame, middle, sign);
        frame.render_widget(rule(theme), below);
        if let Some(index) = found.get(self.picker.cursor) {
            about(model, *index, theme, frame, below);
        }
    }
}

/// A method's system, description and choices.
fn about(model: &Model, index: usize, theme: &Theme, frame: &mut Frame<'_>, below: Rect) {
    let (methods, dim) = (&model.methods, theme.style(Role::Dim));
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
