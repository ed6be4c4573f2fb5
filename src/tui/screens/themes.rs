//! The themes; the screen behind the list is in the one under the cursor.

use ratatui::{layout::Constraint::Fill, widgets::Row};

use crate::tui::{
    action::Action,
    effect::Effect,
    keymap::KeyContext,
    model::{
        Model, Tone,
        stack::{Screen, Turn},
    },
    picker::Move,
    text,
    theme::Theme,
    widgets::{Frame, dialog, list, popup},
};

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

fn keep(model: &mut Model) -> Vec<Effect> {
    let name = model.theme().name.clone();
    let file = model.config.theme_file.clone();
    let only_now = if file.is_none() { ", for this session only" } else { "" };
    model.note(Tone::Info, format!("theme {name}{only_now}"));
    file.map(|file| Effect::RememberTheme(file, name)).into_iter().collect()
}

impl Screen for ThemeList {
    fn context(&self) -> KeyContext {
        KeyContext::List
    }

    fn hints(&self, _model: &Model) -> &'static [Action] {
        &[Action::Choose, Action::Back]
    }

    fn act(&mut self, action: Action, model: &mut Model) -> Turn {
        match action {
            Action::Theme => {
                let next = (self.cursor + 1) % model.look.themes.len().max(1);
                self.go(Move::To(next), model);
                Turn::stay()
            }
            Action::Choose => Turn::Leave(keep(model)),
            Action::Back => {
                model.look.theme = self.before;
                Turn::leave()
            }
            _ => Turn::Pass,
        }
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
