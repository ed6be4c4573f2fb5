//! Verifying the shown run: its context is decoded again without drafts, unseen, and the two texts are compared.

use crate::tui::effect::Effect;
use crate::tui::model::{EngineState, Model, Tone, run::Proof};
use crate::tui::update::{engine_problem, runs};
use specreel_client::{UNSEEN, present::statistics::verification};
use specreel_engine::RunRequest;
use specreel_record::{Event, RunLog, RunState};

/// Verify the shown run, or show an earlier result.
pub(crate) fn start(model: &mut Model) {
    match request(model) {
        Ok((proof, request)) => {
            model.runs.proof = Some(proof);
            model.emit(Effect::Run(Box::new(request)));
        }
        Err((tone, words)) => model.note(tone, words),
    }
}

fn request(model: &mut Model) -> Result<(Proof, RunRequest), (Tone, String)> {
    let info = |words: &str| (Tone::Info, words.to_owned());
    let Some(run) = model.runs.shown() else { return Err(info("no run to verify yet")) };
    if let Some(found) = run.log.whole().verification() {
        return Err(info(&verification(found)));
    }
    if run.replayed {
        return Err(info("a saved run cannot be verified: re-run it with r first"));
    }
    if run.autoregressive {
        return Err(info("this is autoregressive decoding itself: verify another method's run"));
    }
    let started = run.log.whole().started();
    if let (EngineState::Ready(ready), Some(started)) = (&model.models.engine, started)
        && (started.target != ready.target || model.models.is_changing())
    {
        return Err(info("the run is not one of the models in use: re-run it with r first"));
    }
    if model.is_running() {
        return Err(info("the engine is busy: verify the run once it is over"));
    }
    let asked = run.method.clone().zip(run.sampling.clone());
    let Some((method, sampling)) = asked.filter(|_| run.log.whole().is_finished()) else {
        return Err(info("only a finished run can be verified"));
    };
    if let Some(problem) = engine_problem(model) {
        return Err((Tone::Bad, problem));
    }
    let (of, ids) = (run.id(), run.log.whole().ids().to_vec());
    let number = UNSEEN + model.runs.next;
    let request = runs::request_of(model, of, &run.subject, (&method, &sampling)).verifying(number, &ids);
    model.runs.next += 1;
    Ok((Proof { of, tokens: ids.len(), log: RunLog::new(number) }, request))
}

/// Take in an event of the run that verifies another one; its result is an event of that run.
pub(crate) fn on_event(model: &mut Model, event: &Event) {
    if let Some(proof) = &mut model.runs.proof {
        proof.log.apply(event);
    }
    let Some(proof) = &model.runs.proof else { return };
    let (tone, words) = match proof.log.state() {
        RunState::Waiting | RunState::Running => return,
        RunState::Failed(failure) => (Tone::Bad, format!("not verified: {}", failure.error)),
        _ => match model.runs.get(proof.of).and_then(|run| run.log.whole().verification()) {
            Some(found) if found.is_broken() => (Tone::Bad, verification(found)),
            Some(found) => (Tone::Info, verification(found)),
            None => (Tone::Info, "not verified: cancelled".into()),
        },
    };
    model.runs.proof = None;
    model.note(tone, words);
}

/// End the verification that runs: the engine is needed for something else. False if none does.
pub(crate) fn stop(model: &mut Model) -> bool {
    let Some(proof) = model.runs.proof.take() else { return false };
    model.emit(Effect::Cancel(proof.log.run()));
    true
}

#[cfg(test)]
#[path = "verify_tests.rs"]
mod tests;
