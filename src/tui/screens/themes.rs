//! The themes; the screen behind the list is in the one under the cursor.

use ratatui::{layout::Constraint::Fill, widgets::Row};

use crate::look::{Action, Theme};
use crate::tui::model::{Keys, Model, Screen, Tone, Turn};
use crate::tui::widgets::{Frame, dialog, list, popup};
use crate::tui::{effect::Effect, picker::Move, text};

#[derive(Debug)]
pub(crate) struct ThemeList {
    cursor: usize,
    /// The theme to go back to.
    before: usize,
}

/// Open the list at the current theme, over the box that is open.
pub(crate) fn open(model: &mut Model) {
    model.screens.push(ThemeList { cursor: model.look.theme, before: model.look.theme });
}

fn keep(model: &mut Model) {
    let name = model.theme().name.clone();
    let file = model.config.theme_file.clone();
    let only_now = if file.is_none() { ", for this session only" } else { "" };
    model.note(Tone::Info, format!("theme {name}{only_now}"));
    model.effects.extend(file.map(|file| Effect::RememberTheme(file, name)));
}

impl Screen for ThemeList {
    fn keys(&self, _model: &Model) -> Keys {
        Keys::list("keep")
    }

    fn act(&mut self, action: Action, model: &mut Model) -> Turn {
        match action {
            Action::Theme => {
                let next = (self.cursor + 1) % model.look.themes.len().max(1);
                self.go(Move::To(next), model);
                return Turn::Stay;
            }
            Action::Choose => keep(model),
            Action::Back => model.look.theme = self.before,
            _ => return Turn::Pass,
        }
        Turn::Leave
    }

    fn go(&mut self, go: Move, model: &mut Model) {
        self.cursor = go.apply(self.cursor, model.look.themes.len(), model.page());
        model.look.theme = self.cursor;
    }

    fn draw(&self, model: &Model, theme: &Theme, frame: &mut Frame<'_>) {
        let n = model.look.themes.len();
        let inner = popup(frame, theme, 32, n as u16 + 2, dialog("Theme", theme));
        list(frame, theme, inner, (self.cursor, n), (None, &[Fill(1)]), |i| {
            Row::new([text::clean_line(&model.look.themes[i].name)])
        });
    }
}
