//! The saved runs and the replay of one of them.

use super::*;
use crate::tui::{archive::SessionEntry, model::replay};
use specreel_record::Session;

pub(super) fn open(model: &mut Model) -> Vec<Effect> {
    let Some(folder) = model.sessions.folder.clone() else {
        model.note(Tone::Bad, "no directory for saved runs: neither HOME nor XDG_DATA_HOME is set");
        return Vec::new();
    };
    model.sessions.confirm = false;
    model.overlay = Some(Overlay::Sessions);
    vec![Effect::List(folder)]
}

pub(super) fn listed(model: &mut Model, found: Result<Vec<SessionEntry>, String>) {
    match found {
        Ok(entries) => {
            let saved =
                entries.iter().filter(|entry| !entry.text.is_empty()).map(|e| e.started.video.clone());
            let written = model.runs.all.iter().filter(|run| !run.replayed && run.log.is_finished());
            let written = written.map(|run| run.subject.video.clone());
            model.library.captioned = saved.map(Into::into).chain(written).collect();
            model.sessions.set(entries);
        }
        Err(problem) => {
            model.sessions.entries.get_or_insert_default();
            model.note(Tone::Bad, problem);
        }
    }
}

pub(super) fn choose(model: &mut Model) -> Vec<Effect> {
    let path = model.sessions.selected().map(|e| e.path.clone());
    if path.is_none() {
        model.overlay = Some(Overlay::Sessions);
    }
    model.sessions.loading.clone_from(&path);
    path.map(Effect::Load).into_iter().collect()
}

pub(super) fn ask_delete(model: &mut Model) {
    model.sessions.confirm = model.overlay == Some(Overlay::Sessions) && model.sessions.selected().is_some();
}

pub(super) fn delete(model: &mut Model) -> Vec<Effect> {
    if !std::mem::take(&mut model.sessions.confirm) {
        return Vec::new();
    }
    let path = model.sessions.selected().map(|e| e.path.clone());
    path.map(Effect::Delete).into_iter().collect()
}

pub(super) fn loaded(model: &mut Model, session: Result<Session, String>) {
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
    model.replay = Some(first..model.runs.next);
    model.overlay = None;
    model.focus = Pane::Caption;
    model.caption_up = 0;
}
