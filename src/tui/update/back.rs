//! Going back and quitting: what Esc, Ctrl-C and q do.

use super::*;
use crate::tui::{
    model::{batch::Phase, search::Search},
    view::is_wide,
};

pub(super) fn back(model: &mut Model) -> Vec<Effect> {
    if std::mem::take(&mut model.sessions.confirm) {
        return Vec::new();
    }
    if model.back_cancels() {
        return if runs::drop_queue(model) { Vec::new() } else { runs::cancel(model) };
    }
    if matches!(model.overlay, Some(Overlay::Models { .. }))
        && let Some(effects) = models::back(model)
    {
        return effects;
    }
    if model.overlay == Some(Overlay::EditCaption) {
        return leave_editor(model);
    }
    match model.overlay.take() {
        // One level back, to the picker.
        Some(Overlay::Edit(_) | Overlay::SaveMethod(_)) => {
            actions::open_picker(model);
        }
        Some(Overlay::Value { row, .. }) => model.overlay = Some(Overlay::Edit(row)),
        Some(Overlay::Batch) => batch::close(model),
        Some(Overlay::Themes { before, over, .. }) => {
            model.theme = before;
            model.overlay = over.map(|over| *over);
        }
        Some(Overlay::Tower { .. }) => {
            model.overlay = Some(Overlay::Models { query: String::new(), cursor: 0 });
        }
        Some(Overlay::Filter) => model.library.clear_filter(),
        Some(Overlay::Search) => model.search = Search::default(),
        Some(Overlay::SessionFilter) => {
            model.sessions.set_filter(String::new());
            model.overlay = Some(Overlay::Sessions);
        }
        Some(Overlay::Sessions) if !model.sessions.filter.is_empty() => {
            model.sessions.set_filter(String::new());
            model.overlay = Some(Overlay::Sessions);
        }
        Some(_) => {}
        None if model.focus == Pane::Library && !model.library.filter.is_empty() => {
            model.library.clear_filter();
        }
        None if model.focus == Pane::Library && !model.library.marked.is_empty() => {
            model.library.marked.clear()
        }
        None if model.focus == Pane::Prompt => model.focus = model.before_prompt,
        None if model.inspector.take().is_some() => {}
        None if model.focus == Pane::Steps && model.shown_step().is_some() => model.step_cursor = None,
        None if model.focus == Pane::Steps && !is_wide(model.size) => model.focus = Pane::Caption,
        None if model.focus == Pane::Caption && !model.search.query.is_empty() => {
            model.search = Search::default();
        }
        None if model.shown_replay().is_some() => watch::end_replay(model),
        None if model.shows_player() => watch::skip(model),
        None => {}
    }
    Vec::new()
}

/// Leave the editor of a caption; if it was changed, if it is pressed twice.
fn leave_editor(model: &mut Model) -> Vec<Effect> {
    if batch::is_changed(model) && !sure(model, Action::Back) {
        return ask(model, Action::Back, "to discard your changes");
    }
    model.batches.editor = None;
    model.overlay = Some(model.edited.take().map_or(Overlay::Batch, |segment| segment.timeline));
    Vec::new()
}

pub(super) fn interrupt(model: &mut Model) -> Vec<Effect> {
    let cancelling = match model.batches.active() {
        Some(batch) => batch.phase == Phase::Cancelling,
        None => model.runs.active().is_some_and(|r| r.cancelling),
    };
    if model.is_running() && !cancelling {
        model.clip_queue.clear();
        return runs::cancel(model);
    }
    // It may be meant for a run that has just ended.
    if sure(model, Action::Interrupt) { leave(model) } else { ask(model, Action::Interrupt, "to quit") }
}

pub(super) fn quit(model: &mut Model) -> Vec<Effect> {
    match !model.is_running() || sure(model, Action::Quit) {
        true => leave(model),
        false => ask(model, Action::Quit, "to cancel the run and quit"),
    }
}

/// True if the previous key asked for the same.
fn sure(model: &Model, action: Action) -> bool {
    model.asked == Some(action)
}

fn ask(model: &mut Model, action: Action, what: &str) -> Vec<Effect> {
    let key = model.keymap.keys(model.key_context(), action).first().map(ToString::to_string);
    model.note(Tone::Info, format!("press {} again {what}", key.unwrap_or_default()));
    model.asked = Some(action);
    Vec::new()
}

fn leave(model: &Model) -> Vec<Effect> {
    let proof = model.proof.as_ref().map(|proof| proof.log.run());
    let cancel = model.runs.active().map(Run::id).or(proof).map(Effect::Cancel);
    cancel.into_iter().chain([Effect::Quit]).collect()
}
