//! Going back and quitting: what Esc, Ctrl-C and q do.

use crate::look::Action;
use crate::tui::model::{Model, Run, batch::Phase, search::Search};
use crate::tui::update::{panes, runs, watch};
use crate::tui::{effect::Effect, pane::Pane, view::is_wide};

pub(super) fn back(model: &mut Model) {
    match model.focus {
        _ if !model.screens.is_empty() => model.screens.pop(),
        _ if model.back_cancels() => runs::cancel_or_drop(model),
        Pane::Library if !model.library.filter.is_empty() => model.library.clear_filter(),
        Pane::Library if !model.library.marked.is_empty() => model.library.marked.clear(),
        Pane::Prompt => model.focus = model.input.before_prompt,
        _ if model.caption.inspector.take().is_some() => {}
        Pane::Steps if model.shown_step().is_some() => model.caption.step = None,
        Pane::Steps if !is_wide(model.size) => model.focus = Pane::Caption,
        Pane::Caption if !model.caption.search.query.is_empty() => model.caption.search = Search::default(),
        _ if model.shown_replay().is_some() => watch::end_replay(model),
        _ if model.shows_player() => watch::skip(model),
        _ => model.caption.tour = None,
    }
}

pub(super) fn interrupt(model: &mut Model) {
    let cancelling = match model.batches.active() {
        Some(batch) => batch.phase == Phase::Cancelling,
        None => model.runs.active().is_some_and(|r| r.cancelling),
    };
    if model.is_running() && !cancelling {
        model.queue.clips.clear();
        return runs::cancel(model);
    }
    // It may be meant for a run that has just ended.
    sure_or_ask(model, Action::Interrupt, "to quit");
}

pub(super) fn quit(model: &mut Model) {
    match model.is_running() {
        true => sure_or_ask(model, Action::Quit, "to cancel the run and quit"),
        false => leave(model),
    }
}

/// Leave if the key was pressed twice.
fn sure_or_ask(model: &mut Model, action: Action, what: &str) {
    if model.input.asked == Some(action) {
        return leave(model);
    }
    panes::ask(model, model.key_context(), action, what);
}

fn leave(model: &mut Model) {
    let proof = model.runs.proof.as_ref().map(|proof| proof.log.run());
    let cancel = model.runs.active().map(Run::id).or(proof).map(Effect::Cancel);
    model.effects.extend(cancel.into_iter().chain([Effect::Quit]));
}
