//! The sampling of the next runs: its base, and the values that are set over it.

mod bases;
mod value;

use ratatui::layout::Constraint::{Fill, Length, Min};
use ratatui::layout::Layout;
use ratatui::text::{Span, Text};
use ratatui::{style::Style, widgets::Row};

use crate::look::{Action, KeyContext, Role, Theme};
use crate::tui::model::sampling::{self, ROWS, SamplingChoice};
use crate::tui::model::{Keys, Model, Screen, Tone, Turn};
use crate::tui::text;
use crate::tui::widgets::{Frame, cut, dialog, list, popup, rule, wrap};
use bases::BaseList;
use value::ControlLine;

/// Rows of the rule, of what a value means, and of what holds.
const BELOW: u16 = 4;

#[derive(Debug, Default)]
pub(crate) struct SamplingScreen {
    pub cursor: usize,
}

/// Take over what was changed, or say why it cannot be. True if it was taken over.
fn apply(model: &mut Model, changed: Result<SamplingChoice, String>) -> bool {
    match changed {
        Ok(changed) => {
            model.sampling = changed;
            true
        }
        Err(problem) => {
            model.note(Tone::Bad, problem);
            false
        }
    }
}

impl SamplingScreen {
    fn row(&self) -> sampling::Row {
        sampling::row(self.cursor)
    }

    /// Change the row under the cursor.
    fn turn(&self, model: &mut Model, up: bool) -> Turn {
        let turned = model.sampling.turned(self.row(), up);
        apply(model, turned);
        Turn::Stay
    }

    /// Set the row under the cursor back.
    fn reset(&self, model: &mut Model) -> Turn {
        let start = SamplingChoice::of(&model.config.request, &model.config.sampling_presets);
        let reset = model.sampling.reset(self.row(), &start);
        apply(model, reset);
        Turn::Stay
    }
}

impl Screen for SamplingScreen {
    fn keys(&self, _model: &Model) -> Keys {
        use Action::{Back, Choose, KnobUp, Reset};
        let verb = match self.row() {
            sampling::Row::Base => "list",
            sampling::Row::Value(_) => "type",
            sampling::Row::OnLoop => "switch",
        };
        Keys::new(KeyContext::Sampling, verb, &[KnobUp, Choose, Reset, Back])
    }

    /// Choose a base from all of them, or type a value.
    fn choose(&mut self, model: &mut Model) -> Turn {
        match self.row() {
            sampling::Row::Base => Turn::over(BaseList::new(model)),
            sampling::Row::Value(control) => Turn::over(ControlLine::new(control, model)),
            sampling::Row::OnLoop => self.turn(model, true),
        }
    }

    fn act(&mut self, action: Action, model: &mut Model) -> Turn {
        match action {
            Action::KnobUp | Action::KnobDown => self.turn(model, action == Action::KnobUp),
            Action::Reset => self.reset(model),
            _ => Turn::Pass,
        }
    }

    fn cursor(&mut self) -> Option<&mut usize> {
        Some(&mut self.cursor)
    }

    fn rows(&self, _model: &Model) -> usize {
        ROWS
    }

    fn draw(&self, model: &Model, theme: &Theme, frame: &mut Frame<'_>) {
        let chosen = &model.sampling;
        let title = theme.line(Role::Dim, " of the next runs ").right_aligned();
        let block = dialog("Sampling", theme).title_bottom(title);
        let inner = popup(frame, theme, 76, ROWS as u16 + BELOW + 2, block);
        let [above, below] = inner.layout(&Layout::vertical([Min(1), Length(BELOW)]));
        let (dim, value_width) = (theme.style(Role::Dim), 22);
        let widths = [Length(18), Length(value_width), Fill(1)];
        list(frame, theme, above, (self.cursor, ROWS), (None, &widths), |at| {
            let row = sampling::row(at);
            let value = chosen.value(row);
            let shown = value.as_deref().unwrap_or("the model's own");
            let shown = text::fit(shown, usize::from(value_width) - 4);
            let shown = if at == self.cursor { format!("‹ {shown} ›") } else { format!("  {shown}") };
            let (name, value) = match row {
                sampling::Row::Base => (theme.style(Role::Title), theme.style(Role::Accent)),
                row if chosen.is_set(row) => (Style::new(), theme.style(Role::Accent)),
                sampling::Row::Value(_) => (Style::new(), dim),
                sampling::Row::OnLoop => (Style::new(), Style::new()),
            };
            Row::new([
                Span::styled(row.name(), name),
                Span::styled(shown, value),
                Span::styled(chosen.source(row).to_owned(), dim),
            ])
        });
        let columns = usize::from(below.width);
        let mut lines = vec![theme.line(Role::Dim, text::fit(self.row().about(), columns))];
        lines.extend(wrap([(chosen.describe().as_str(), theme.style(Role::Text))], columns));
        cut(&mut lines, usize::from(BELOW) - 1, columns);
        let block = rule(theme);
        let place = block.inner(below);
        frame.render_widget(block, below);
        frame.render_widget(Text::from(lines), place);
    }
}

#[cfg(test)]
mod tests;
