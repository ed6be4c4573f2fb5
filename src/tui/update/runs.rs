//! Asking for runs, one at a time: a new wish ends the run before it and waits for its last word.

use std::sync::Arc;

use super::{actions, engine_problem, segments};
use crate::{
    engine::{RunRequest, Turn},
    speculate::Method,
    tui::{
        Effect,
        model::{
            Model, Pane, Tone, Waiting, methods,
            run::{About, Run, RunState, Subject},
        },
        view::is_stacked,
    },
};

/// Caption the selected clip with the prompt and the method that stand there.
pub(super) fn run(model: &mut Model) -> Vec<Effect> {
    let Some(subject) = selected_subject(model) else { return Vec::new() };
    model.prompt.remember(&subject.prompt);
    let mut effects = super::remember(model, &subject.video);
    effects.extend(request(model, subject));
    effects
}

/// Run the shown clip and prompt again with the method that is chosen now.
pub(super) fn again(model: &mut Model) -> Vec<Effect> {
    match shown_subject(model) {
        Some(subject) if subject.pieces.is_empty() => request(model, subject),
        Some(subject) => segments::begin(model, subject),
        None => run(model),
    }
}

/// Run again at once where a run of this sitting is shown: its context is kept, so a change of the method shows soon.
pub(super) fn again_if_shown(model: &mut Model) -> Vec<Effect> {
    match model.runs.shown() {
        // All pieces of a clip are not run again at the turn of a number.
        Some(run) if !run.about.replayed && run.group().is_none() && actions::is_ready(model) => again(model),
        _ => Vec::new(),
    }
}

/// Ask on about the shown caption: its question and its answer stand before the new one.
pub(super) fn follow_up(model: &mut Model, question: &str) -> Vec<Effect> {
    let (Some(run), Some(mut subject)) = (model.runs.shown(), shown_subject(model)) else {
        return Vec::new();
    };
    let answer = run.text().trim().to_owned();
    let asked = std::mem::replace(&mut subject.prompt, question.to_owned());
    // Of a clip in pieces it is about the piece that is shown.
    (subject.segment, subject.pieces) = (None, Arc::default());
    subject.before.push(Turn { prompt: asked, answer });
    model.prompt.remember(question);
    request(model, subject)
}

/// Clip, its title and the questions of the shown run.
fn shown_subject(model: &Model) -> Option<Subject> {
    let about = &model.runs.shown()?.about;
    Some(Subject {
        video: about.video.clone(),
        title: about.title.clone(),
        before: about.before.clone(),
        prompt: about.prompt.clone(),
        span: about.span,
        segment: about.segment,
        pieces: Arc::clone(&about.pieces),
    })
}

/// What a comparison is about: the shown run's clip and prompt, or what is selected; what is missing is told.
pub(super) fn subject(model: &mut Model) -> Option<Subject> {
    let of_a_piece = |subject: Subject| Subject { segment: None, pieces: Arc::default(), ..subject };
    shown_subject(model).map(of_a_piece).or_else(|| selected_subject(model))
}

pub(super) fn selected_subject(model: &mut Model) -> Option<Subject> {
    let Some(entry) = model.library.selected() else {
        model.note(Tone::Bad, "no clip is selected: paste a path, or press o to open one");
        return None;
    };
    let (video, title) = (entry.path.clone(), entry.title.clone());
    let prompt = model.prompt.text();
    if prompt.is_empty() {
        model.note(Tone::Bad, "the prompt is empty: write one, or press p for a prepared one");
        return None;
    }
    let (span, segment, pieces) = (None, None, Arc::default());
    Some(Subject { video, title, before: Vec::new(), prompt, span, segment, pieces })
}

/// A run of this method, numbered.
pub(super) fn waiting(model: &mut Model, subject: Subject, method: Method) -> Waiting {
    let settings = &model.settings;
    let Subject { video, title, before, prompt, span, segment, pieces } = subject;
    let about = About {
        title,
        video: video.clone(),
        before: before.clone(),
        prompt: prompt.clone(),
        span,
        segment,
        pieces,
        label: model.methods.label_of(&method),
        method: Some(method.clone()),
        autoregressive: methods::is_autoregressive(&method),
        lossless: model.methods.is_lossless(&method),
        replayed: false,
    };
    let request = RunRequest {
        span,
        segment,
        before,
        run: model.runs.next,
        video,
        prompt,
        method,
        sampling: settings.sampling,
        max_pixels: settings.max_pixels,
        max_new_tokens: settings.max_new_tokens,
        text: settings.text,
        logprobs: settings.logprobs,
    };
    model.runs.next += 1;
    Waiting { request, about }
}

/// The chosen method; none where nothing can be run, which is said.
pub(super) fn method_to_run(model: &mut Model) -> Option<Method> {
    if let Some(problem) = engine_problem(model) {
        model.note(Tone::Bad, problem);
        return None;
    }
    let method = model.methods.current().cloned();
    if method.is_none() {
        model.note(Tone::Bad, "there is no method to run");
    }
    method
}

fn request(model: &mut Model, subject: Subject) -> Vec<Effect> {
    let Some(method) = method_to_run(model) else { return Vec::new() };
    // What waits is not wanted any more.
    model.queue.clear();
    model.cutting = None;
    let waiting = waiting(model, subject, method);
    model.waiting = Some(waiting);
    // On a low screen only one pane is whole: the one that the run is about.
    if is_stacked(model.size) && model.focus != Pane::Prompt {
        model.focus = Pane::Caption;
    }
    if let Some(active) = model.runs.active() {
        let already = active.state == RunState::Cancelling;
        let id = active.id;
        if let Some(active) = model.runs.get_mut(id) {
            active.state = RunState::Cancelling;
        }
        return if already { Vec::new() } else { vec![Effect::Cancel(id)] };
    }
    start_waiting(model)
}

/// Send the waiting run if the engine is free.
pub(super) fn start_waiting(model: &mut Model) -> Vec<Effect> {
    if !actions::is_ready(model) || model.runs.active().is_some() {
        return Vec::new();
    }
    let waiting = model.waiting.take().or_else(|| model.queue.pop_front());
    let Some(waiting) = waiting else { return Vec::new() };
    let Waiting { request, about } = waiting;
    model.runs.forget_unwritten();
    // The next piece of a clip does not take the eye from one that is being looked at.
    let goes_on = about.segment.is_some_and(|s| s.index > 0);
    let before = |r: &Run| r.group() == about.segment.map(|s| s.first) && r.id + 1 == request.run;
    let follow = !goes_on || (model.inspector.is_none() && model.runs.shown().is_some_and(before));
    if !goes_on {
        model.caption_up = 0;
    }
    model.runs.add(Run::new(request.run, about), follow);
    vec![Effect::Run(Box::new(request))]
}

/// End the run, or forget the one that waits.
pub(super) fn cancel(model: &mut Model) -> Vec<Effect> {
    let waited = model.waiting.take().is_some() | model.cutting.take().is_some() | !model.queue.is_empty();
    model.queue.clear();
    let Some(id) = model.runs.active().filter(|r| r.state != RunState::Cancelling).map(|r| r.id) else {
        if waited {
            model.note(Tone::Info, "the waiting run was dropped");
        }
        return Vec::new();
    };
    if let Some(run) = model.runs.get_mut(id) {
        run.state = RunState::Cancelling;
    }
    vec![Effect::Cancel(id)]
}
