//! Playing runs: the clock of the shown run, and the keys that control it.

use crate::look::Action;
use crate::tui::model::{Model, Tone};

/// Advance the playback by a time on the screen. The runs of a group are played and shown one after another.
pub(crate) fn advance(model: &mut Model, ms: f64) {
    let Some(at) = model.playing() else { return };
    model.runs.all[at].log.advance(ms);
    if model.runs.all[at].log.is_at_end() {
        follow(model, at);
    }
}

/// Show the run after this one, if it has been waiting for its turn: the next segment, or the next run of the queue.
fn follow(model: &mut Model, at: usize) {
    let Some([run, next]) = model.runs.all.get(at..at + 2) else { return };
    // A run that wrote nothing is not played.
    let is_new = next.log.is_unseen() || next.log.whole().steps().is_empty();
    let is_segment = next.group().is_some() && next.group() == run.group();
    let is_queued = model.queue.follows.is_some_and(|last| next.id() <= last);
    let is_next = is_new && (is_segment || is_queued);
    if is_next && model.runs.shown == at && model.caption.inspector.is_none() {
        model.runs.shown = at + 1;
        model.caption.up = 0;
    }
}

pub(crate) fn control(model: &mut Model, action: Action) {
    let mut at = model.playing().unwrap_or(model.runs.shown);
    // Before the beginning of a segment is the end of the one before it.
    if matches!(action, Action::SeekBack | Action::StepBack)
        && let Some(before) = at.checked_sub(1)
        && let Some([earlier, run]) = model.runs.all.get(before..=at)
        && run.log.is_unseen()
        && run.group().is_some()
        && run.group() == earlier.group()
    {
        at = before;
        model.runs.shown = before;
    }
    let Some(run) = model.runs.all.get_mut(at).filter(|run| !run.log.whole().steps().is_empty()) else {
        return model.note(Tone::Info, "nothing to play yet");
    };
    let player = &mut run.log;
    let is_done = player.is_at_end();
    match action {
        Action::Pause => player.toggle(),
        Action::SeekBack => player.jump(-1.0),
        Action::SeekForward => player.jump(1.0),
        Action::StepBack => player.step(false),
        Action::StepForward if is_done => {}
        Action::StepForward => player.step(true),
        Action::Slower => player.change_speed(false),
        Action::Faster => player.change_speed(true),
        Action::Skip => player.skip(),
        _ => {}
    }
    if matches!(action, Action::Slower | Action::Faster) {
        let speed = player.speed_words().unwrap_or_else(|| "true speed".into());
        model.note(Tone::Info, speed);
    } else if model.runs.all[at].log.is_at_end() {
        follow(model, at);
    }
    model.caption.up = 0;
}

pub(crate) fn skip(model: &mut Model) {
    let Some(run) = model.runs.shown() else { return };
    let (id, group) = (run.id(), run.group());
    for run in &mut model.runs.all {
        if run.id() == id || (group.is_some() && run.group() == group) {
            run.log.skip();
        }
    }
    follow(model, model.runs.shown);
}

/// End the replay; its runs stay, complete.
pub(crate) fn end_replay(model: &mut Model) {
    let Some(replay) = model.sessions.replay.take() else { return };
    for run in model.runs.all.iter_mut().filter(|run| replay.contains(&run.id())) {
        run.log.skip();
    }
}
