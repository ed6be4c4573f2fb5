//! The panes: which has the focus, and where their cursors are.

use crate::look::{Action, KeyContext};
use crate::tui::model::{Model, Tone};
use crate::tui::update::{search, steps};
use crate::tui::{pane::Pane, picker::Move, view};

pub(crate) fn focus(model: &mut Model, pane: Pane) {
    if pane == Pane::Prompt && model.focus != Pane::Prompt {
        model.input.before_prompt = model.focus;
    }
    model.screens.close();
    if !matches!(pane, Pane::Caption | Pane::Steps) {
        model.caption.inspector = None;
    }
    model.focus = pane;
}

/// Move the cursor of the pane that has the focus.
pub(crate) fn go(model: &mut Model, go: Move) {
    match model.focus {
        Pane::Library => go_in_library(model, go),
        Pane::Caption => {
            let most = view::caption::overflow(model);
            // Counted from the end, so that the stream can be followed.
            let down = most.saturating_sub(model.caption.up.min(most));
            model.caption.up = most - go.apply(down, most + 1, view::caption::page(model));
        }
        Pane::Steps => {
            let page = model.page();
            steps::go(model, |at, n| go.apply(at, n, page));
        }
        Pane::Meters if !matches!(go, Move::Pages(_)) => {
            show_run(model, go.apply(model.runs.shown, model.runs.all.len(), 1));
        }
        Pane::Meters | Pane::Prompt => {}
    }
}

pub(crate) fn go_in_library(model: &mut Model, go: Move) {
    model.library.cursor = go.apply(model.library.cursor, model.library.shown.len(), model.page());
}

pub(crate) fn show_run(model: &mut Model, index: usize) {
    if index < model.runs.all.len() && index != model.runs.shown {
        let before = model.runs.shown().and_then(|r| r.group());
        model.runs.shown = index;
        // The captions of all segments are in the pane already.
        match model.runs.shown().and_then(|r| r.group()).filter(|group| Some(*group) == before) {
            Some(_) => search::show(model, view::caption::lay(model).and_then(|laid| laid.segment)),
            None => model.caption.up = 0,
        }
    }
}

/// Ask for the action's key a second time.
pub(crate) fn ask(model: &mut Model, context: KeyContext, action: Action, what: &str) {
    let key = model.keymap.shown(context, &[action]);
    model.note(Tone::Info, format!("press {key} again {what}"));
    model.input.asked = Some(action);
}
