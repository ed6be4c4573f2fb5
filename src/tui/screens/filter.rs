//! The filter of the library, on the pane's border.

use super::preview;
use crate::look::Action;
use crate::tui::model::{Keys, Model, Screen, Turn};
use crate::tui::{effect::Effect, line::InputLine, pane::Pane, picker::Move, update::panes};
use specreel_client::moments::Moment;

#[derive(Debug)]
pub(crate) struct FilterLine {
    line: InputLine,
}

pub(crate) fn open(model: &mut Model) {
    panes::focus(model, Pane::Library);
    model.screens.open(FilterLine { line: InputLine::new(&model.library.filter) });
}

/// Moments with these words were found.
pub(crate) fn found(model: &mut Model, words: &str, moments: &Result<Vec<Moment>, String>) {
    // The line may be closed already, with its filter kept.
    if model.library.filter.trim() == words {
        // What is no search is still the name of a clip.
        model.library.set_moments(words, moments.as_ref().map_or_else(|_| Vec::new(), Clone::clone));
    }
}

/// The library has dropped its filter, to show a file.
pub(crate) fn dropped(model: &mut Model) {
    if let Some(filter) = model.screens.shown_mut::<FilterLine>() {
        filter.line = InputLine::default();
    }
}

impl Screen for FilterLine {
    fn keys(&self, model: &Model) -> Keys {
        let found = model.library.selected().and_then(|entry| model.library.best_moment(entry));
        Keys::line(if found.is_some() { "go there" } else { "keep" })
    }

    /// Keep the filter; a clip that was found by what is in it is previewed there.
    fn choose(&mut self, model: &mut Model) -> Turn {
        let found = model.library.selected().and_then(|entry| model.library.best_moment(entry));
        let Some((path, start)) = found.map(|moment| (moment.path.clone(), moment.start)) else {
            return Turn::Leave;
        };
        model.library.moment = Some((path, start));
        preview::instead(model)
    }

    fn act(&mut self, action: Action, model: &mut Model) -> Turn {
        if action != Action::Back {
            return Turn::Pass;
        }
        model.library.clear_filter();
        Turn::Leave
    }

    fn line(&mut self) -> Option<&mut InputLine> {
        Some(&mut self.line)
    }

    fn typed(&mut self, model: &mut Model) {
        model.library.set_filter(self.line.text.clone());
        let words = self.line.text.trim();
        if !words.is_empty() && model.config.finder.is_some() {
            model.emit(Effect::Find(words.to_owned()));
        }
    }

    fn go(&mut self, go: Move, model: &mut Model) {
        panes::go_in_library(model, go);
    }

    fn border(&self) -> Option<(Pane, &InputLine)> {
        Some((Pane::Library, &self.line))
    }
}
