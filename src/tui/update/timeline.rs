//! The timeline of the shown clip: going to one of its segments, and captioning one again.

use super::*;
use crate::tui::model::timeline;

pub(super) fn open(model: &mut Model) {
    let shown = model.runs.shown().and_then(|run| run.subject.segment);
    match shown {
        Some(segment) => {
            model.overlay = Some(Overlay::Timeline { query: String::new(), cursor: segment.index });
        }
        None => model.note(Tone::Info, "this clip is not captioned in segments: L captions it so"),
    }
}

/// Show the caption of the segment under the cursor.
pub(super) fn choose(model: &mut Model, query: &str, cursor: usize) {
    let run = picked(model, query, cursor).and_then(|(_, run)| run);
    match run.and_then(|id| model.runs.all.iter().position(|run| run.id() == id)) {
        Some(index) => {
            model.focus = Pane::Caption;
            actions::show_run(model, index);
        }
        None => model.note(Tone::Info, "this segment is not captioned yet"),
    }
}

/// Caption the segment under the cursor again, after those that wait.
pub(super) fn again(model: &mut Model) -> Vec<Effect> {
    let Some(Overlay::Timeline { query, cursor }) = model.overlay.clone() else { return Vec::new() };
    let Some((_, Some(id))) = picked(model, &query, cursor) else {
        model.note(Tone::Info, "this segment is not captioned yet");
        return Vec::new();
    };
    let Some(run) = model.runs.get(id).filter(|run| run.has_ended()) else {
        model.note(Tone::Info, "this segment is being captioned");
        return Vec::new();
    };
    let (subject, was) = (run.subject.clone(), run.subject.segment);
    if model.queue.iter().any(|waiting| waiting.run.subject.segment == was) {
        model.note(Tone::Info, "this segment waits for its turn");
        return Vec::new();
    }
    if batch::is_in_the_way(model) || models::are_in_the_way(model) {
        return Vec::new();
    }
    let Some(method) = runs::method_to_run(model) else { return Vec::new() };
    let waiting = runs::waiting(model, subject, method);
    model.queue.push_back(waiting);
    runs::start_waiting(model)
}

/// The index of the segment under the cursor, and its run.
fn picked(model: &Model, query: &str, cursor: usize) -> Option<(usize, Option<u64>)> {
    let index = *timeline::found(model, query).get(cursor)?;
    let piece = *timeline::pieces(model).get(index)?;
    Some((index, piece.run.map(Run::id)))
}
