//! What the engine's events do. Events of runs that the model does not know are left alone.

use super::runs;
use crate::{
    record::{Event, EventKind, Failure, FailureClass},
    tui::{
        Effect,
        model::{EngineState, Model, Tone, run::RunState},
        text,
    },
};

pub(super) fn on_event(model: &mut Model, event: Event) -> Vec<Effect> {
    if event.run == 0 {
        return on_engine(model, event.kind);
    }
    let Some(run) = model.runs.get_mut(event.run).filter(|r| !r.is_over() && !r.about.replayed) else {
        return Vec::new();
    };
    run.take_in(event.kind);
    if !run.is_over() {
        return Vec::new();
    }
    // The other pieces of the clip would fail in the same way.
    if run.group().is_some() && matches!(run.state, RunState::Failed(_)) {
        model.queue.clear();
    }
    runs::start_waiting(model)
}

fn on_engine(model: &mut Model, kind: EventKind) -> Vec<Effect> {
    match kind {
        EventKind::Stage { stage, done, total } if !matches!(model.engine, EngineState::Ready { .. }) => {
            model.engine = EngineState::Loading { stage, done, total };
        }
        EventKind::Ready { target, drafter, device, dtype, .. } => {
            model.engine = EngineState::Ready {
                target: text::clean_line(&target),
                drafter: drafter.map(|d| text::clean_line(&d)),
                device: text::clean_line(&device),
                dtype: text::clean_line(&dtype),
            };
            return runs::start_waiting(model);
        }
        EventKind::Failed(failure) => engine_failed(model, failure),
        _ => {}
    }
    Vec::new()
}

/// The engine cannot run anything any more.
pub(super) fn engine_failed(model: &mut Model, failure: Failure) {
    let failure = clean(failure);
    model.waiting = None;
    model.queue.clear();
    let active = model.runs.active().map(|r| r.id);
    if let Some(run) = active.and_then(|id| model.runs.get_mut(id)) {
        let error = "the engine ended during this run".into();
        run.state =
            RunState::Failed(Failure { class: FailureClass::Internal, error, hint: failure.hint.clone() });
    }
    // The first word says most: the loader's failure is followed by the thread's end.
    if !matches!(model.engine, EngineState::Failed(_)) {
        model.note(Tone::Bad, &failure.error);
        model.engine = EngineState::Failed(failure);
    }
}

fn clean(failure: Failure) -> Failure {
    Failure {
        class: failure.class,
        error: text::clean(&failure.error),
        hint: failure.hint.map(|h| text::clean(&h)),
    }
}
