//! The saved runs and the replay of one of them.

use crate::tui::{
    model::{Model, Tone, replay},
    pane::Pane,
    update::watch,
};
use specreel_record::Session;

pub(crate) fn loaded(model: &mut Model, session: Result<Session, String>) {
    let session = match session {
        Ok(session) => session,
        Err(problem) => return model.note(Tone::Bad, problem),
    };
    let (first, pace) = (model.runs.next, model.config.pace);
    let file = model.sessions.loading.take();
    let Some(runs) = replay::runs(first, session, file.as_deref(), pace, &model.methods) else {
        return model.note(Tone::Bad, "this saved run has no started event");
    };
    watch::end_replay(model);
    model.runs.next += runs.len() as u64;
    for (i, run) in runs.into_iter().enumerate() {
        model.runs.add(run, i == 0);
    }
    model.sessions.replay = Some(first..model.runs.next);
    model.screens.close();
    model.focus = Pane::Caption;
    model.caption.up = 0;
}
