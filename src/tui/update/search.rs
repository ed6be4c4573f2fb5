//! Searching in the caption.

use crate::tui::model::{Model, Tone};
use crate::tui::view;

/// The search changed: go to the first match from the top visible line on.
pub(crate) fn begin(model: &mut Model) {
    let Some(laid) = view::caption::lay(model) else { return };
    let top = laid.top(model.caption.up);
    model.caption.search.at = laid.found.iter().position(|line| *line >= top).unwrap_or(0);
    show(model, laid.found.get(model.caption.search.at).copied());
}

pub(crate) fn step(model: &mut Model, by: isize) {
    if model.caption.search.query.is_empty() {
        return model.note(Tone::Info, "no search yet: press / to start one");
    }
    let Some(laid) = view::caption::lay(model) else { return };
    let n = laid.found.len() as isize;
    if n > 0 {
        model.caption.search.at = (model.caption.search.at as isize + by).rem_euclid(n) as usize;
        show(model, laid.found.get(model.caption.search.at).copied());
    }
}

pub(crate) fn show(model: &mut Model, line: Option<usize>) {
    if let (Some(line), Some(laid)) = (line, view::caption::lay(model))
        && let Some(up) = laid.scroll_to(line, model.caption.up)
    {
        model.caption.up = up;
    }
}
