//! The timeline of the shown clip: going to one of its segments, and captioning one again.

use super::*;
use crate::tui::model::{EditedSegment, prompt::MAX_PROMPT_BYTES, timeline};
use specreel_record::{Event, EventKind};

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

/// Edit the caption of the segment under the cursor.
pub(super) fn edit(model: &mut Model) {
    let Some(timeline @ Overlay::Timeline { query, cursor }) = &model.overlay else { return };
    let run = picked(model, query, *cursor).and_then(|(_, id)| model.runs.get(id?));
    match run.map(|run| (run.id(), run.log.whole())).filter(|(_, log)| log.is_finished()) {
        Some((_, log)) if log.text().len() > MAX_PROMPT_BYTES => {
            model.note(Tone::Bad, "the caption is too long to edit here");
        }
        Some((run, log)) => {
            model.batches.editor = Some(PromptEditor::new(log.text().trim()));
            model.edited = Some(EditedSegment { run, timeline: timeline.clone() });
            model.overlay = Some(Overlay::EditCaption);
        }
        None => model.note(Tone::Info, "this segment has no caption that can be edited"),
    }
}

/// Take the caption in the editor for the segment's, and save it with its run.
pub(super) fn save(model: &mut Model, segment: &EditedSegment) -> Vec<Effect> {
    let Some(text) = model.batches.editor.take().map(|editor| editor.text()) else { return Vec::new() };
    model.edited = None;
    model.overlay = Some(segment.timeline.clone());
    let records = model.config.record && model.sessions.folder.is_some();
    let Some(run) = model.runs.get_mut(segment.run) else { return Vec::new() };
    if run.log.whole().text().trim() == text {
        return Vec::new();
    }
    run.apply(&Event::new(segment.run, EventKind::Edited { text: text.clone() }));
    let (file, number) = run.saved.clone().unzip();
    let is_saved = file.is_some() || (records && !run.replayed);
    let event = Event::new(number.unwrap_or(segment.run), EventKind::Edited { text });
    let words = if is_saved { "saved with the run" } else { "kept for this session: runs are not saved" };
    model.note(Tone::Info, words);
    if is_saved { vec![Effect::SaveEdit(Box::new(event), file)] } else { Vec::new() }
}

/// The index of the segment under the cursor, and its run.
fn picked(model: &Model, query: &str, cursor: usize) -> Option<(usize, Option<u64>)> {
    let index = *timeline::found(model, query).get(cursor)?;
    let piece = *timeline::pieces(model).get(index)?;
    Some((index, piece.run.map(Run::id)))
}
