//! Applies the engine's events to the model. Events of unknown runs are ignored, unless the runs of a server
//! are followed.

use crate::tui::model::{EngineState, Model, Tone, replay, run::choice};
use crate::tui::text;
use crate::tui::update::{batch, models, runs, verify};
use specreel_demo as assets;
use specreel_record::{Event, EventKind, Failure, FailureClass};

pub(crate) fn on_event(model: &mut Model, event: Event) {
    batch::begun(model, &event);
    let event = text::clean_event(event);
    if event.run == 0 {
        return on_engine(model, event.kind);
    }
    if model.runs.proof.as_ref().is_some_and(|proof| proof.log.run() == event.run) {
        return verify::on_event(model, &event);
    }
    if let (true, EventKind::Started(started)) = (model.config.server.is_some(), &event.kind) {
        let run = replay::described(event.run, started, model.config.pace, &model.methods);
        // A run that the user still watches or inspects is not replaced.
        let is_watched = model.is_playing() || model.caption.inspector.is_some() || !model.screens.is_empty();
        let is_last = model.runs.shown + 1 >= model.runs.all.len();
        model.runs.add(run, is_last && !is_watched);
    }
    let Some(run) = model.runs.get_mut(event.run).filter(|r| !r.replayed) else {
        return;
    };
    if run.has_ended() {
        // Only its speed may still change, and whether it is verified.
        run.apply(&event);
        return;
    }
    let notes = run.apply(&event);
    let failed = run.log.whole().failure().is_some();
    let (is_over, failed_segment) = (run.has_ended(), run.group().is_some() && failed);
    let written = run.log.whole().is_finished().then(|| run.subject.video.clone());
    announce(model, notes);
    if !is_over {
        return;
    }
    model.library.captioned.extend(written);
    // The other segments of the clip would fail in the same way.
    if failed_segment {
        model.queue.runs.clear();
    }
    runs::start_waiting(model)
}

/// Show notes in the status line, unless they were shown for the run before, or have a badge. They stay readable in the meters.
fn announce(model: &mut Model, notes: Vec<String>) {
    let is_new = |note: &String| {
        note != assets::LIMITS_NOTE && choice(note).is_none() && !model.notices.announced.contains(note)
    };
    let new: Vec<String> = notes.into_iter().filter(is_new).collect();
    if !new.is_empty() {
        model.note(Tone::Info, format!("note: {}", new.join("; ")));
        model.notices.announced.extend(new);
    }
}

fn on_engine(model: &mut Model, kind: EventKind) {
    match kind {
        EventKind::Stage { done, total, left_ms, .. } if models::progress(model, done, total, left_ms) => {}
        EventKind::Stage { stage, done, total, .. }
            if !matches!(model.models.engine, EngineState::Ready(_)) =>
        {
            model.models.engine = EngineState::Loading { stage, done, total };
        }
        EventKind::Ready(ready) => {
            if let (Some(server), EngineState::Failed(_)) = (&model.config.server, &model.models.engine) {
                model.note(Tone::Info, format!("{server}: connected again"));
            }
            announce(model, ready.notes.clone());
            model.models.engine = EngineState::Ready(ready.clone());
            models::ready(model, &ready);
            runs::start_waiting(model);
        }
        EventKind::Failed(failure) if models::load_failed(model, &failure) => {}
        EventKind::Failed(failure) => engine_failed(model, failure),
        _ => {}
    }
}

pub(crate) fn engine_failed(model: &mut Model, failure: Failure) {
    model.queue.next = None;
    model.runs.proof = None;
    model.queue.runs.clear();
    model.queue.clips.clear();
    batch::engine_failed(model, &failure.error);
    if let Some(run) = model.runs.active_mut() {
        let (error, hint) = ("the engine ended during this run".into(), failure.hint.clone());
        let failed = Failure { class: FailureClass::Internal, error, hint };
        run.apply(&Event::new(run.id(), EventKind::Failed(failed)));
    }
    // The first failure says most: the loader's is followed by the end of the engine's thread.
    if !matches!(model.models.engine, EngineState::Failed(_)) {
        model.note(Tone::Bad, &failure.error);
        model.models.engine = EngineState::Failed(failure);
    }
}
