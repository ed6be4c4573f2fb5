//! The frames of clips to read for the screen.

use crate::look::ColorDepth;
use crate::tui::model::{Model, preview};
use crate::tui::{config::FrameRequest, effect::Effect, pane::Pane, view};

/// Request the frames that the screen shows, unless they are read or requested already.
pub(crate) fn ask(model: &mut Model) {
    let request = wanted(model).filter(|w| !model.library.strips.has(w));
    if request != model.library.strips.reading {
        model.library.strips.begin(request.clone());
        model.emit(Effect::Frames(request));
    }
}

fn wanted(model: &Model) -> Option<FrameRequest> {
    if !model.has_pictures() {
        return None;
    }
    if let Some(top) = model.screens.top().filter(|_| model.screens.typed_on(Pane::Library).is_none()) {
        return top.frames(model);
    }
    let inspected = model.caption.inspector.and_then(|_| model.runs.shown());
    let blends = model.config.colors == ColorDepth::True && model.screens.is_empty();
    let tiles = inspected.filter(|_| blends).and_then(preview::tiles);
    let selected = model.library.selected().filter(|_| view::shows_thumbnail(model));
    let small = selected.map(|entry| preview::thumbnail(&entry.path));
    [tiles, small].into_iter().flatten().find(|request| !model.library.strips.has(request))
}
