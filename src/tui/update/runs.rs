//! Asking for runs, one at a time: a new wish ends the run before it and waits for its last word.

use super::{actions, engine_problem};
use crate::{
    engine::RunRequest,
    tui::{
        Effect,
        model::{
            Model, Pane, Tone, Waiting, methods,
            run::{Run, RunState},
        },
        view::is_stacked,
    },
};

/// Caption the selected clip with the prompt and the method that stand there.
pub(super) fn run(model: &mut Model) -> Vec<Effect> {
    let Some(entry) = model.library.selected() else {
        model.note(Tone::Bad, "no clip is selected: paste a path, or press o to open one");
        return Vec::new();
    };
    let (video, title) = (entry.path.clone(), entry.title.clone());
    let prompt = model.prompt.text();
    if prompt.is_empty() {
        model.note(Tone::Bad, "the prompt is empty: write one, or press p for a prepared one");
        return Vec::new();
    }
    model.prompt.remember(&prompt);
    request(model, video, title, prompt)
}

/// Run the shown clip and prompt again with the method that is chosen now.
pub(super) fn again(model: &mut Model) -> Vec<Effect> {
    let Some(shown) = model.runs.shown() else { return run(model) };
    let (video, title, prompt) = (shown.video.clone(), shown.title.clone(), shown.prompt.clone());
    request(model, video, title, prompt)
}

fn request(model: &mut Model, video: std::path::PathBuf, title: String, prompt: String) -> Vec<Effect> {
    if let Some(problem) = engine_problem(model) {
        model.note(Tone::Bad, problem);
        return Vec::new();
    }
    let Some(method) = model.methods.current().cloned() else {
        model.note(Tone::Bad, "there is no method to run");
        return Vec::new();
    };
    let settings = &model.settings;
    let waiting = Waiting {
        title,
        method: model.methods.label(model.methods.chosen),
        autoregressive: methods::is_autoregressive(&method),
        lossless: model.methods.is_lossless(&method),
        request: RunRequest {
            run: model.runs.next,
            video,
            prompt,
            method,
            sampling: settings.sampling,
            max_pixels: settings.max_pixels,
            max_new_tokens: settings.max_new_tokens,
            text: settings.text,
            logprobs: settings.logprobs,
        },
    };
    model.runs.next += 1;
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
    let Some(waiting) = model.waiting.take() else { return Vec::new() };
    let Waiting { request, title, method, autoregressive, lossless } = waiting;
    model.runs.add(Run::new(&request, &title, &method, autoregressive, lossless));
    model.caption_up = 0;
    vec![Effect::Run(Box::new(request))]
}

/// End the run, or forget the one that waits.
pub(super) fn cancel(model: &mut Model) -> Vec<Effect> {
    let waited = model.waiting.take().is_some();
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
