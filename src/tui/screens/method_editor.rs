//! The method editor: the five choices of a method and the keys of each.

use ratatui::layout::Constraint::{Fill, Length};
use ratatui::text::{Line, Span};
use ratatui::{style::Style, widgets::Row};

use super::{method_list, methods::MethodPicker, save_method, value::ValueLine};
use crate::look::{Action, KeyContext, Role, Theme};
use crate::tui::model::edit::{self, rows, value};
use crate::tui::model::{Keys, Model, Screen, Tone, Turn};
use crate::tui::widgets::{Frame, dialog, list, mark, popup};
use crate::tui::{text, update::runs};

#[derive(Debug, Default)]
pub(crate) struct MethodEditor {
    pub cursor: usize,
}

impl MethodEditor {
    /// Adjust the choice or the value under the cursor.
    fn turn(&self, model: &mut Model, up: bool) {
        let Some(method) = model.methods.current() else { return };
        let Some(row) = rows(method).get(self.cursor).copied() else { return };
        match edit::turned(method, row, up) {
            Ok(method) => model.methods.replace(method),
            Err(problem) => model.note(Tone::Bad, problem),
        }
    }

    /// Type the value under the cursor.
    fn ask_value(&self, model: &mut Model) -> Turn {
        let Some(method) = model.methods.current() else { return Turn::Stay };
        match rows(method).get(self.cursor).and_then(|row| edit::typeable(method, *row)) {
            Some(line) => Turn::over(ValueLine::new(self.cursor, line)),
            None => {
                model.note(Tone::Info, "press ← or → to change a choice");
                Turn::Stay
            }
        }
    }
}

impl Screen for MethodEditor {
    fn keys(&self, _model: &Model) -> Keys {
        use Action::{Back, Choose, Edit, KnobUp, Reset, Save};
        Keys::new(KeyContext::Edit, "run", &[KnobUp, Edit, Choose, Save, Reset, Back])
    }

    fn act(&mut self, action: Action, model: &mut Model) -> Turn {
        match action {
            Action::KnobUp | Action::KnobDown => self.turn(model, action == Action::KnobUp),
            Action::Edit => return self.ask_value(model),
            Action::Reset => {
                method_list::reset(model, model.methods.chosen);
                self.cursor = self.cursor.min(self.rows(model).saturating_sub(1));
            }
            Action::Save => return save_method::open(model),
            Action::Choose => {
                runs::again_if_shown(model);
                return Turn::Leave;
            }
            // One level back, to the picker.
            Action::Back => return Turn::open(MethodPicker::new(model)),
            _ => return Turn::Pass,
        }
        Turn::Stay
    }

    fn cursor(&mut self) -> Option<&mut usize> {
        Some(&mut self.cursor)
    }

    fn rows(&self, model: &Model) -> usize {
        model.methods.current().map_or(0, |method| rows(method).len())
    }

    fn draw(&self, model: &Model, theme: &Theme, frame: &mut Frame<'_>) {
        let Some(method) = model.methods.current() else { return };
        let rows = rows(method);
        let label = text::fit(&model.methods.label(model.methods.chosen), 40);
        let head = Line::from(vec![
            theme.span(Role::Title, format!(" {label} ")),
            mark(method.lossless(), theme),
            Span::raw(" "),
        ]);
        let block = dialog("Method", theme).title_bottom(head.right_aligned());
        // The height fits most methods, so that the box keeps its size as choices change.
        let inner = popup(frame, theme, 84, 20.max(rows.len() as u16 + 2), block);
        let dim = theme.style(Role::Dim);
        let [name, value_width] = [11, 18];
        let widths = [Length(name), Length(value_width), Fill(1)];
        let last = usize::from(inner.width.saturating_sub(name + value_width + 4));
        list(frame, theme, inner, (self.cursor, rows.len()), (None, &widths), |i| {
            let value = value(method, rows[i]);
            let shown = value.as_deref().unwrap_or("default").replace('_', " ");
            let shown = text::fit(&shown, usize::from(value_width).saturating_sub(4));
            let shown = if i == self.cursor { format!("‹ {shown} ›") } else { format!("  {shown}") };
            let cells = match rows[i] {
                edit::Row::Choice(axis) => [
                    theme.span(Role::Title, axis.name),
                    theme.span(Role::Accent, shown),
                    Span::styled(text::fit(axis.question, last), dim),
                ],
                edit::Row::Key(_, key) => [
                    Span::raw(""),
                    Span::styled(shown, if value.is_none() { dim } else { Style::new() }),
                    Span::styled(text::fit(&key.name.replace('_', " "), last), dim),
                ],
            };
            Row::new(cells)
        });
    }
}
