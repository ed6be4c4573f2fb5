//! The methods to compare.

use ratatui::layout::Constraint::{Length, Min};
use ratatui::layout::Layout;

use super::{compare, method_list};
use crate::look::{Action, KeyContext, Theme};
use crate::tui::model::{Keys, Model, Screen, Tone, Turn};
use crate::tui::picker::Picker;
use crate::tui::widgets::{Frame, around, dialog, popup};

#[derive(Debug)]
pub(crate) struct ComparePicker {
    pub picker: Picker,
}

/// Choose the methods; autoregressive and the selected one are picked already.
pub(crate) fn open(model: &mut Model) {
    let n = model.methods.turned.len();
    if model.methods.picked.len() != n {
        model.methods.picked = vec![false; n];
    }
    for (i, method) in model.methods.turned.iter().enumerate() {
        model.methods.picked[i] |= i == model.methods.chosen || method.is_autoregressive();
    }
    // Other models may have been loaded since they were picked.
    for i in 0..n {
        model.methods.picked[i] &= model.unavailable(i).is_none();
    }
    model.screens.open(ComparePicker { picker: Picker::at(model.methods.chosen) });
}

impl ComparePicker {
    fn pick(&self, model: &mut Model) {
        let Some(index) = method_list::under(&self.picker, &model.methods) else { return };
        if let Some(why) = model.unavailable(index) {
            return model.note(Tone::Bad, why);
        }
        if let Some(picked) = model.methods.picked.get_mut(index) {
            *picked = !*picked;
        }
    }
}

impl Screen for ComparePicker {
    fn keys(&self, _model: &Model) -> Keys {
        Keys::new(KeyContext::Pick, "run", &[Action::Choose, Action::Pick, Action::Back])
    }

    /// Run the methods that are picked.
    fn choose(&mut self, model: &mut Model) -> Turn {
        let all = model.methods.turned.iter().enumerate();
        let wanted =
            all.filter(|(i, m)| model.methods.picked.get(*i) == Some(&true) || m.is_autoregressive());
        let methods = wanted.map(|(_, method)| (method.clone(), None)).collect();
        compare::begin(model, methods, None);
        Turn::Leave
    }

    fn act(&mut self, action: Action, model: &mut Model) -> Turn {
        match action {
            Action::Pick => {
                self.pick(model);
                Turn::Stay
            }
            _ => method_list::act(&self.picker, KeyContext::Pick, action, model),
        }
    }

    fn picker(&mut self) -> Option<&mut Picker> {
        Some(&mut self.picker)
    }

    fn rows(&self, model: &Model) -> usize {
        model.methods.found(self.picker.query()).0.len()
    }

    fn on_click(&self) -> Option<Action> {
        Some(Action::Pick)
    }

    fn typed(&mut self, model: &mut Model) {
        self.picker.cursor = model.methods.found(self.picker.query()).1;
    }

    fn restarts_search(&self) -> bool {
        true
    }

    fn draw(&self, model: &Model, theme: &Theme, frame: &mut Frame<'_>) {
        let (found, _) = model.methods.found(self.picker.query());
        let rows = method_list::all_lines(&model.methods).saturating_add(3);
        let columns = around(method_list::row_columns(model), 84);
        let inner = popup(frame, theme, columns, rows, dialog("Compare", theme));
        let [above, list] = inner.layout(&Layout::vertical([Length(1), Min(1)]));
        method_list::filter(&self.picker, found.is_empty(), theme, frame, [above, list]);
        method_list::grouped(model, (&found, self.picker.cursor), theme, frame, list, |i| {
            let is_baseline = model.methods.turned[i].is_autoregressive();
            if model.methods.picked.get(i) == Some(&true) || is_baseline { "[x] " } else { "[ ] " }
        });
    }
}
