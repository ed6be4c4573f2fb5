//! Searching in the caption.

use super::*;
use crate::tui::model::search::Search;

pub(super) fn open(model: &mut Model) {
    if model.runs.shown().is_none() {
        return model.note(Tone::Info, "no caption to search yet");
    }
    model.inspector = None;
    model.focus = Pane::Caption;
    model.search = Search::default();
    model.overlay = Some(Overlay::Search);
}

/// The search changed: go to the first match from the top visible line on.
pub(super) fn begin(model: &mut Model) {
    let Some(laid) = view::caption::lay(model) else { return };
    let top = laid.top(model.caption_up);
    model.search.at = laid.found.iter().position(|line| *line >= top).unwrap_or(0);
    show(model, laid.found.get(model.search.at).copied());
}

pub(super) fn step(model: &mut Model, by: isize) {
    if model.search.query.is_empty() {
        return model.note(Tone::Info, "no search yet: press / to start one");
    }
    let Some(laid) = view::caption::lay(model) else { return };
    let n = laid.found.len() as isize;
    if n > 0 {
        model.search.at = (model.search.at as isize + by).rem_euclid(n) as usize;
        show(model, laid.found.get(model.search.at).copied());
    }
}

pub(super) fn show(model: &mut Model, line: Option<usize>) {
    if let (Some(line), Some(laid)) = (line, view::caption::lay(model))
        && let Some(up) = laid.scroll_to(line, model.caption_up)
    {
        model.caption_up = up;
    }
}
