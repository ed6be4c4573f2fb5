//! Captioning clips together: starting a batch, and what becomes of its clips.

use std::{collections::BTreeMap, sync::Arc};

use crate::look::Action;
use crate::tui::effect::{BatchJob, BatchNews, Effect};
use crate::tui::model::batch::{Batch, BatchClip, ClipState, Phase};
use crate::tui::model::{Model, Subject, Tone};
use crate::tui::text;
use crate::tui::update::{engine_problem, models, runs};
use specreel_batch::{self as batch, Options, Outcome, rows::Caption};
use specreel_record::{Event, EventKind, Pace, Started};

/// Start a batch; returns it if other models are being loaded.
pub(crate) fn start(model: &mut Model, mut batch: Batch) -> Option<Batch> {
    if models::are_in_the_way(model) {
        return Some(batch);
    }
    for clip in &mut batch.clips {
        if matches!(clip.state, ClipState::Failed(_) | ClipState::Busy) {
            clip.state = ClipState::Waiting;
        }
    }
    (batch.phase, batch.problem) = (Phase::Waiting, None);
    model.batches.last = Some(batch);
    match engine_problem(model) {
        Some(problem) => ended(model, Err(problem)),
        None => runs::start_waiting(model),
    }
    None
}

pub(crate) fn send(model: &mut Model) {
    let Some(mut batch) = model.batches.last.take() else { return };
    let waiting = batch.clips.iter().filter(|clip| clip.state == ClipState::Waiting);
    let clips: Vec<_> = waiting.map(|clip| clip.clip.clone()).collect();
    let first = model.runs.next;
    let subject = Subject { prompt: batch.prompt.clone(), ..Subject::default() };
    let request = batch.sampling.asked(runs::waiting(model, subject, batch.method.clone()).request);
    model.runs.next = first + clips.len() as u64;
    (batch.runs, batch.phase) = (first..model.runs.next, Phase::Running);
    batch.progress = batch::Progress { total: clips.len(), ..batch::Progress::default() };
    let known = |clip: &batch::Clip| {
        let path = clip.path();
        let said = Arc::clone(model.library.speech.get(&path)?);
        Some((path, said))
    };
    let said: BTreeMap<_, _> = clips.iter().filter_map(known).collect();
    let options = Options {
        sidecar: model.batches.sidecar,
        existing: model.batches.existing,
        cues: model.batches.cues,
        retry_failed: batch.retries,
        prompts: vec![batch.prompt.clone()],
        job: format!(
            "{:?} {:?} {said:?}",
            model.models.engine,
            specreel_engine::RunRequest { run: 0, ..request.clone() }
        ),
        ..Options::default()
    };
    model.batches.last = Some(batch);
    model.emit(Effect::Batch(Box::new(BatchJob { clips, options, said, request })));
}

/// A run of the batch starts: from now on it is one of this session's runs.
pub(crate) fn begun(model: &mut Model, event: &Event) {
    let EventKind::Started(Started { video, .. }) = &event.kind else { return };
    if model.runs.get(event.run).is_some() {
        return;
    }
    let Some(batch) = model.batches.last.as_mut().filter(|batch| batch.runs.contains(&event.run)) else {
        return;
    };
    let is_it = |clip: &&mut BatchClip| clip.clip.path().to_string_lossy() == video.as_str();
    let Some(clip) = batch.clips.iter_mut().find(is_it) else { return };
    (clip.state, clip.run) = (ClipState::Running, event.run);
    let subject = Subject {
        video: clip.clip.path(),
        title: clip.title.clone(),
        prompt: batch.prompt.clone(),
        ..Subject::default()
    };
    let (method, sampling) = (batch.method.clone(), batch.sampling.clone());
    // The next clip does not wait until this one has been watched.
    let run = runs::live(model, event.run, subject, (method, sampling), Pace::Off);
    let is_last = model.runs.shown + 1 >= model.runs.all.len();
    // A run that is being watched is shown to its end.
    let follow = is_last && model.caption.inspector.is_none() && !model.is_playing();
    if follow {
        model.caption.up = 0;
    }
    model.runs.add(run, follow);
}

pub(crate) fn news(model: &mut Model, news: BatchNews) {
    match news {
        BatchNews::Clip { video, run, outcome, existing, progress } => {
            let Some(batch) = &mut model.batches.last else { return };
            batch.progress = *progress;
            let Some(clip) = batch.clip_mut(&video) else { return };
            clip.run = if run > 0 { run } else { clip.run };
            clip.state = match outcome {
                Outcome::Captioned(captions) => {
                    clip.caption = captions.into_iter().next();
                    ClipState::Done
                }
                Outcome::Empty(captions) => {
                    clip.caption = captions.into_iter().next();
                    ClipState::Empty
                }
                Outcome::Skipped => {
                    let text = |text| Caption { text, ..Caption::default() };
                    clip.caption = clip.caption.take().or(existing.map(text));
                    ClipState::Skipped
                }
                Outcome::Busy => ClipState::Busy,
                Outcome::Failed(failure) => ClipState::Failed(text::clean_line(&failure.error)),
                Outcome::FailedBefore(error) => ClipState::Failed(text::clean_line(&error)),
            };
            if matches!(clip.state, ClipState::Done | ClipState::Skipped) {
                model.library.captioned.insert(video);
            }
        }
        BatchNews::Ended(outcome) => {
            ended(model, outcome.map(|summary| summary.interrupted));
            runs::start_waiting(model);
        }
    }
}

fn ended(model: &mut Model, outcome: Result<bool, String>) {
    let Some(batch) = &mut model.batches.last else { return };
    batch.phase = Phase::Ended;
    for clip in batch.clips.iter_mut().filter(|clip| clip.state == ClipState::Running) {
        clip.state = ClipState::Waiting;
    }
    let counts = batch.counts().counts(batch.failed());
    match outcome {
        Ok(interrupted) => {
            let words = if interrupted { "batch cancelled" } else { "batch done" };
            model.note(Tone::Info, format!("{words}: {counts}"));
        }
        Err(problem) => {
            let problem = text::clean_line(&problem);
            batch.problem = Some(problem.clone());
            model.note(Tone::Bad, format!("the batch has stopped: {problem}"));
        }
    }
}

pub(crate) fn engine_failed(model: &mut Model, error: &str) {
    if model.batches.last.as_ref().is_some_and(|batch| batch.phase == Phase::Waiting) {
        ended(model, Err(error.to_owned()));
    }
}

/// Cancel the active batch; written files stay. False if there is none.
pub(crate) fn cancel(model: &mut Model) -> bool {
    let Some(batch) = model.batches.last.as_mut().filter(|batch| batch.is_active()) else { return false };
    match batch.phase {
        Phase::Waiting => ended(model, Ok(true)),
        Phase::Running => {
            batch.phase = Phase::Cancelling;
            if let Some(run) = model.runs.active_mut() {
                run.cancelling = true;
            }
            model.emit(Effect::CancelBatch);
        }
        _ => {}
    }
    true
}

/// True, with a notice, if a batch has to end before the requested work can run.
pub(crate) fn is_in_the_way(model: &mut Model) -> bool {
    let active = model.batches.active().is_some();
    if active {
        let key = model.keymap.shown(model.key_context(), &[Action::Interrupt]);
        model.note(Tone::Info, format!("a batch is running: wait for its end, or cancel it with {key}"));
    }
    active
}
