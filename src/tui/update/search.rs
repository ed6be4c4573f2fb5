//! Searching in the caption.

use crate::tui::{
    model::{Model, Overlay, Pane, Tone, search::Search},
    view,
};

/// Begin to type what is searched.
pub(super) fn open(model: &mut Model) {
    if model.runs.shown().is_none() {
        return model.note(Tone::Info, "there is no caption to search yet");
    }
    model.inspector = None;
    model.focus = Pane::Caption;
    model.search = Search::default();
    model.layer = Some(Overlay::Search);
}

/// What is searched has changed: go to the first match from the top of what is seen.
pub(super) fn begin(model: &mut Model) {
    let Some(laid) = view::caption::lay(model) else { return };
    let top = laid.top(model.caption_up);
    model.search.at = laid.found.iter().position(|line| *line >= top).unwrap_or(0);
    show(model, laid.found.get(model.search.at).copied());
}

/// The next match or the one before; after the last comes the first.
pub(super) fn step(model: &mut Model, by: isize) {
    if model.search.query.is_empty() {
        return model.note(Tone::Info, "nothing is searched: / begins");
    }
    let Some(laid) = view::caption::lay(model) else { return };
    let n = laid.found.len() as isize;
    if n > 0 {
        model.search.at = (model.search.at as isize + by).rem_euclid(n) as usize;
        show(model, laid.found.get(model.search.at).copied());
    }
}

/// Scroll so that a line of the caption is seen.
pub(super) fn show(model: &mut Model, line: Option<usize>) {
    if let (Some(line), Some(laid)) = (line, view::caption::lay(model))
        && let Some(up) = laid.scroll_to(line, model.caption_up)
    {
        model.caption_up = up;
    }
}
