//! Requesting runs, one at a time: a new request cancels the active run and waits for its end.

use std::sync::Arc;

use super::{actions, engine_problem, segments};
use crate::{
    engine::{RunRequest, Turn},
    present::player::Player,
    record::RunLog,
    speculate::Method,
    tui::{
        Effect,
        model::{
            Model, Pane, Tone, Waiting, methods,
            run::{Run, Subject},
        },
        view::is_stacked,
    },
};

/// Caption the selected clip with the current prompt and method.
pub(super) fn run(model: &mut Model) -> Vec<Effect> {
    let Some(subject) = selected_subject(model) else { return Vec::new() };
    model.prompt.remember(&subject.prompt);
    let mut effects = super::remember(model, &subject.video);
    effects.extend(request(model, subject));
    effects
}

/// Re-run the shown clip and prompt with the selected method.
pub(super) fn again(model: &mut Model) -> Vec<Effect> {
    match shown_subject(model) {
        Some(subject) if subject.segments.is_empty() => request(model, subject),
        Some(subject) => segments::begin(model, subject),
        None => run(model),
    }
}

/// Re-run at once if a run of this session is shown: its prefill is kept, so a changed method shows soon.
pub(super) fn again_if_shown(model: &mut Model) -> Vec<Effect> {
    match model.runs.shown() {
        // Adjusting a parameter does not re-run all segments of a clip.
        Some(run) if !run.replayed && run.group().is_none() && actions::is_ready(model) => again(model),
        _ => Vec::new(),
    }
}

/// Ask a follow-up question about the shown caption: its prompt and its text precede the question.
pub(super) fn follow_up(model: &mut Model, question: &str) -> Vec<Effect> {
    let (Some(run), Some(mut subject)) = (model.runs.shown(), shown_subject(model)) else {
        return Vec::new();
    };
    let answer = run.log.whole().shown().trim().to_owned();
    let asked = std::mem::replace(&mut subject.prompt, question.to_owned());
    // If the clip is captioned in segments, the question is about the shown one.
    (subject.segment, subject.segments) = (None, Arc::default());
    subject.before.push(Turn { prompt: asked, answer });
    model.prompt.remember(question);
    request(model, subject)
}

fn shown_subject(model: &Model) -> Option<Subject> {
    model.runs.shown().map(|run| run.subject.clone())
}

/// What a comparison is about: the shown run's clip and prompt, or what is selected. If something is missing, a notice says so.
pub(super) fn subject(model: &mut Model) -> Option<Subject> {
    let alone = |subject: Subject| Subject { segment: None, segments: Arc::default(), ..subject };
    shown_subject(model).map(alone).or_else(|| selected_subject(model))
}

pub(super) fn selected_subject(model: &mut Model) -> Option<Subject> {
    let Some(entry) = model.library.selected() else {
        model.note(Tone::Bad, "no clip selected: paste a path, or press o to open one");
        return None;
    };
    let (video, title) = (entry.path.clone(), entry.title.clone());
    let prompt = model.prompt.text();
    if prompt.is_empty() {
        model.note(Tone::Bad, "the prompt is empty: type one, or press p for a preset");
        return None;
    }
    Some(Subject { video, title, prompt, ..Subject::default() })
}

/// A numbered request to run this method, and its run.
pub(super) fn waiting(model: &mut Model, subject: Subject, method: Method) -> Waiting {
    let settings = &model.settings;
    let id = model.runs.next;
    let request = RunRequest {
        span: subject.span,
        segment: subject.segment,
        before: subject.before.clone(),
        run: id,
        video: subject.video.clone(),
        prompt: subject.prompt.clone(),
        method: method.clone(),
        sampling: settings.sampling,
        max_pixels: settings.max_pixels,
        max_new_tokens: settings.max_new_tokens,
        text: settings.text,
        logprobs: settings.logprobs,
        measure: true,
    };
    let run = Run {
        subject,
        label: model.methods.label_of(&method),
        autoregressive: methods::is_autoregressive(&method),
        lossless: model.methods.is_lossless(&method),
        method: Some(method),
        replayed: false,
        cancelling: false,
        log: Player::live(RunLog::new(id), model.settings.pace),
    };
    model.runs.next += 1;
    Waiting { request, run }
}

/// The selected method; none, with a notice, if nothing can be run.
pub(super) fn method_to_run(model: &mut Model) -> Option<Method> {
    if let Some(problem) = engine_problem(model) {
        model.note(Tone::Bad, problem);
        return None;
    }
    let method = model.methods.current().cloned();
    if method.is_none() {
        model.note(Tone::Bad, "no method to run");
    }
    method
}

fn request(model: &mut Model, subject: Subject) -> Vec<Effect> {
    let Some(method) = method_to_run(model) else { return Vec::new() };
    // This request replaces those that wait.
    model.queue.clear();
    model.cutting = None;
    let waiting = waiting(model, subject, method);
    model.waiting = Some(waiting);
    // If panes are stacked, show the one that the run writes to.
    if is_stacked(model.size) && model.focus != Pane::Prompt {
        model.focus = Pane::Caption;
    }
    if model.runs.active().is_some() {
        return cancel_active(model);
    }
    start_waiting(model)
}

/// Cancel the active run, unless that was done already.
fn cancel_active(model: &mut Model) -> Vec<Effect> {
    let Some(id) = model.runs.active().filter(|r| !r.cancelling).map(Run::id) else { return Vec::new() };
    if let Some(run) = model.runs.get_mut(id) {
        run.cancelling = true;
    }
    vec![Effect::Cancel(id)]
}

/// Send the waiting run if the engine is free.
pub(super) fn start_waiting(model: &mut Model) -> Vec<Effect> {
    if !actions::is_ready(model) || model.runs.active().is_some() {
        return Vec::new();
    }
    let (waiting, is_queued) = match model.waiting.take() {
        Some(waiting) => (Some(waiting), false),
        None => (model.queue.pop_front(), true),
    };
    let Some(waiting) = waiting else { return Vec::new() };
    let Waiting { request, run } = waiting;
    model.runs.forget_unwritten();
    // The next segment of a clip does not replace one that the user looks at.
    let continues = run.subject.segment.is_some_and(|s| s.index > 0);
    let is_before = |r: &Run| r.group() == run.group() && r.id() + 1 == run.id();
    let follow = !continues || (model.inspector.is_none() && model.runs.shown().is_some_and(is_before));
    // A run that is being watched is shown to its end.
    let is_watched = is_queued && model.is_playing();
    model.follows = (follow && is_watched).then_some(run.id());
    let follow = follow && !is_watched;
    if !continues {
        model.caption_up = 0;
    }
    model.runs.add(run, follow);
    vec![Effect::Run(Box::new(request))]
}

/// Cancel the active run, and drop those that wait.
pub(super) fn cancel(model: &mut Model) -> Vec<Effect> {
    let waited = model.waiting.take().is_some() | model.cutting.take().is_some() | !model.queue.is_empty();
    model.queue.clear();
    let effects = cancel_active(model);
    if effects.is_empty() && waited {
        model.note(Tone::Info, "the waiting run was dropped");
    }
    effects
}
