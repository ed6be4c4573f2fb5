//! Adjusting the chosen method.

use crate::look::{Action, KeyContext};
use crate::tui::model::{Model, Tone};
use crate::tui::update::runs;

const FIXED: &str = "this method has no adjustable parameter";

/// Adjust the active parameter; while the panes are shown, run the shown clip again with it.
pub(crate) fn turn(model: &mut Model, up: bool) {
    let Some(knob) = model.methods.turn(up) else { return model.note(Tone::Info, FIXED) };
    if model.screens.is_empty() {
        runs::again_if_shown(model);
    }
    model.note(Tone::Info, knob.to_string());
}

/// Name the active parameter, and the keys that adjust it.
pub(crate) fn note_knob(model: &mut Model, context: KeyContext) {
    match model.methods.active_knob() {
        Some(knob) => {
            let keys = model.keymap.shown(context, &[Action::KnobDown, Action::KnobUp]);
            model.note(Tone::Info, format!("{knob}: adjust with {keys}"));
        }
        None => model.note(Tone::Info, FIXED),
    }
}
