//! Requesting runs, one at a time: a new request cancels the active run and waits for its end; one for another clip is queued.

use std::{collections::VecDeque, sync::Arc};

use crate::tui::model::{Model, Run, Subject, Tone, queue::Waiting, sampling::SamplingChoice};
use crate::tui::update::{batch, engine_problem, remember, segments, verify};
use crate::tui::{effect::Effect, pane::Pane, text, view::is_stacked};
use specreel_client::moments::LibraryQuestion;
use specreel_client::present::{formats::plural, player::Player};
use specreel_engine::{RunRequest, Turn};
use specreel_record::{Pace, RunLog, Span};
use specreel_speculate::Method;

pub(crate) fn run_selected(model: &mut Model) {
    let Some(subject) = selected_subject(model) else { return };
    model.prompt.remember(&subject.prompt);
    remember(model, &subject.video);
    match is_behind_another(model, &subject) {
        true => enqueue(model, subject),
        false => request(model, subject),
    }
}

fn is_behind_another(model: &Model, subject: &Subject) -> bool {
    if model.batches.active().is_some() {
        return true;
    }
    let active = model.runs.active().filter(|run| !run.cancelling).map(|run| &run.subject);
    let next = model.queue.next.as_ref().or(model.queue.runs.front()).map(|waiting| &waiting.run.subject);
    let first = next.or(active).or(model.queue.cutting.as_ref());
    first.is_some_and(|first| first.video != subject.video)
}

/// Add a clip to the queue; if it is there, its request is replaced.
fn enqueue(model: &mut Model, subject: Subject) {
    let Some(method) = method_to_run(model) else { return };
    let title = subject.title.clone();
    let new = waiting(model, subject, method);
    match model.queue.clips.iter_mut().find(|queued| queued.request.video == new.request.video) {
        Some(queued) => *queued = new,
        None => model.queue.clips.push_back(new),
    }
    model.note(Tone::Info, format!("{title} is queued"));
    start_waiting(model);
}

pub(crate) fn again(model: &mut Model) {
    let Some(subject) = shown_subject(model) else { return };
    if subject.segments.is_empty() {
        return request(model, subject);
    }
    // Prompts of saved segments have what is said in each.
    let runs = model.runs.shown().map(|run| model.runs.together(run)).unwrap_or_default();
    let own = runs.iter().filter_map(|run| Some((run.subject.span?, run.subject.prompt.clone())));
    let own: Vec<(Span, String)> = own.collect();
    segments::begin(model, subject, &own);
}

/// Re-run at once if a run of this session is shown: its prefill is kept, so a changed method shows soon.
pub(crate) fn again_if_shown(model: &mut Model) {
    // Adjusting a parameter does not re-run all segments of a clip.
    let is_one = |run: &Run| !run.replayed && run.group().is_none();
    if model.runs.shown().is_some_and(is_one) && model.is_ready() {
        again(model);
    }
}

/// Ask a follow-up question about the shown caption: its prompt and its text precede the question.
pub(crate) fn follow_up(model: &mut Model, question: &str) {
    let (Some(run), Some(mut subject)) = (model.runs.shown(), shown_subject(model)) else { return };
    let answer = run.log.whole().shown().trim().to_owned();
    let asked = std::mem::replace(&mut subject.prompt, question.to_owned());
    // If the clip is captioned in segments, the question is about the shown one.
    (subject.segment, subject.segments) = (None, Arc::default());
    subject.question = None;
    subject.before.push(Turn { prompt: asked, answer, ..Turn::default() });
    model.prompt.remember(question);
    request(model, subject);
}

/// Answer a question about the library, of whose first moment the video is to be seen in this part.
pub(crate) fn ask_library(model: &mut Model, question: LibraryQuestion, span: Option<Span>) {
    let video = question.shown().path.clone();
    let title = text::clean_line(question.question());
    let prompt = question.prompt();
    model.prompt.remember(question.question());
    let question = Some(Arc::new(question));
    let subject = Subject { video, title, prompt, span, question, ..Subject::default() };
    // A run in progress continues.
    match is_behind_another(model, &subject) {
        true => enqueue(model, subject),
        false => request(model, subject),
    }
}

fn shown_subject(model: &Model) -> Option<Subject> {
    model.runs.shown().map(|run| run.subject.clone())
}

/// A comparison's subject: the shown run's clip and prompt, or the selected ones. If something is missing, a notice says so.
pub(crate) fn subject(model: &mut Model) -> Option<Subject> {
    let alone = |subject: Subject| Subject { segment: None, segments: Arc::default(), ..subject };
    shown_subject(model).map(alone).or_else(|| selected_subject(model))
}

pub(crate) fn selected_subject(model: &mut Model) -> Option<Subject> {
    let Some(entry) = model.library.selected() else {
        model.note(Tone::Bad, "no clip selected: paste a path, or press o to open one");
        return None;
    };
    let (video, title) = (entry.path.clone(), entry.title.clone());
    let said = model.library.speech.get(&video).cloned();
    Some(Subject { video, title, prompt: prompt_to_run(model)?, said, ..Subject::default() })
}

pub(crate) fn prompt_to_run(model: &mut Model) -> Option<String> {
    let prompt = model.prompt.text();
    if prompt.is_empty() {
        model.note(Tone::Bad, "the prompt is empty: type one, or press p for a preset");
    }
    Some(prompt).filter(|prompt| !prompt.is_empty())
}

/// A numbered request to run this method, and its run.
pub(crate) fn waiting(model: &mut Model, subject: Subject, method: Method) -> Waiting {
    let id = model.runs.next;
    let sampling = model.sampling.clone();
    let request = RunRequest { measure: true, ..request_of(model, id, &subject, (&method, &sampling)) };
    let run = live(model, id, subject, (method, sampling), model.config.pace);
    model.runs.next += 1;
    Waiting { request, run }
}

pub(crate) fn request_of(
    model: &Model,
    id: u64,
    subject: &Subject,
    (method, sampling): (&Method, &SamplingChoice),
) -> RunRequest {
    let first = subject.before.first().map_or(&subject.prompt, |turn| &turn.prompt);
    let preset = model.config.presets.iter().find(|preset| preset.text.trim() == first.trim()).cloned();
    let usual = &model.config.request;
    let mut request = RunRequest {
        system: usual.system.clone().or_else(|| preset.as_ref()?.system.clone()),
        preset: preset.map(|preset| preset.name),
        span: subject.span,
        segment: subject.segment,
        before: subject.before.clone(),
        run: id,
        video: subject.video.clone(),
        prompt: subject.prompt.clone(),
        method: method.clone(),
        // Runs on a whole clip are compared.
        reuse_texts: usual.reuse_texts && subject.segment.is_some(),
        ..model.config.request.clone()
    };
    if let Some(said) = &subject.said {
        said.precede(&mut request);
    }
    if let Some(question) = &subject.question {
        request = question.request(subject.span, request);
    }
    sampling.asked(request)
}

pub(crate) fn live(
    model: &Model,
    id: u64,
    subject: Subject,
    (method, sampling): (Method, SamplingChoice),
    pace: Pace,
) -> Run {
    Run {
        subject,
        label: model.methods.label_of(&method),
        autoregressive: method.is_autoregressive(),
        lossless: method.lossless(),
        method: Some(method),
        sampling: Some(sampling),
        replayed: false,
        saved: None,
        summary: None,
        cancelling: false,
        log: Player::live(RunLog::new(id), pace),
    }
}

pub(crate) fn method_to_run(model: &mut Model) -> Option<Method> {
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

fn request(model: &mut Model, subject: Subject) {
    if batch::is_in_the_way(model) {
        return;
    }
    let Some(method) = method_to_run(model) else { return };
    // This request replaces those that wait.
    model.queue.runs.clear();
    model.queue.cutting = None;
    let waiting = waiting(model, subject, method);
    model.queue.next = Some(waiting);
    show_caption(model);
    if model.runs.active().is_some() {
        cancel_active(model);
    } else {
        start_waiting(model);
    }
}

/// If panes are stacked, show the one that a run writes to.
pub(crate) fn show_caption(model: &mut Model) {
    if is_stacked(model.size) && model.focus != Pane::Prompt {
        model.focus = Pane::Caption;
    }
}

/// False if no run is active, or it is cancelled already.
fn cancel_active(model: &mut Model) -> bool {
    let Some(run) = model.runs.active_mut().filter(|run| !run.cancelling) else { return false };
    run.cancelling = true;
    let id = run.id();
    model.emit(Effect::Cancel(id));
    true
}

pub(crate) fn start_waiting(model: &mut Model) {
    if !model.is_ready() || model.runs.active().is_some() || model.batches.has_engine() {
        return;
    }
    if model.queue.next.is_none() && model.queue.runs.is_empty() && model.batches.active().is_some() {
        verify::stop(model);
        return batch::send(model);
    }
    let waiting = model.queue.next.take();
    let is_next = waiting.is_none();
    let waiting = waiting.or_else(|| model.queue.runs.pop_front());
    let is_other_clip = waiting.is_none();
    let Some(waiting) = waiting.or_else(|| model.queue.clips.pop_front()) else { return };
    let Waiting { request, run } = waiting;
    model.runs.forget_unwritten();
    // The next segment of a clip does not replace one that the user looks at.
    let continues = run.subject.segment.is_some_and(|s| s.index > 0);
    let is_before = |r: &Run| r.group() == run.group() && r.id() + 1 == run.id();
    let is_last = model.runs.shown + 1 >= model.runs.all.len() && model.screens.is_empty();
    let follow = match (continues, is_other_clip) {
        (true, _) => model.caption.inspector.is_none() && model.runs.shown().is_some_and(is_before),
        // Nor does the next clip of the queue.
        (false, true) => model.caption.inspector.is_none() && is_last,
        (false, false) => true,
    };
    // A run that is being watched is shown to its end.
    let is_watched = is_next && model.is_playing();
    model.queue.follows = (follow && is_watched).then_some(run.id());
    let follow = follow && !is_watched;
    if !continues && follow {
        model.caption.up = 0;
    }
    model.runs.add(run, follow);
    verify::stop(model);
    model.emit(Effect::Run(Box::new(request)));
}

/// Cancel active work, and run these one after another instead.
pub(crate) fn replace(model: &mut Model, queue: VecDeque<Waiting>) {
    cancel(model);
    model.queue.runs = queue;
    model.notices.shown = None;
    start_waiting(model);
}

/// Cancel the active batch, the verification, or the active run, and drop those that wait.
pub(crate) fn cancel(model: &mut Model) {
    if verify::stop(model) {
        return model.note(Tone::Info, "the verification is cancelled");
    }
    if batch::cancel(model) {
        return;
    }
    let waited = model.queue.next.take().is_some()
        | model.queue.cutting.take().is_some()
        | !model.queue.runs.is_empty();
    model.queue.runs.clear();
    if !cancel_active(model) && waited {
        model.note(Tone::Info, "the waiting run was dropped");
    }
}

/// Drop the clips that are queued; if there are none, cancel what is active.
pub(crate) fn cancel_or_drop(model: &mut Model) {
    let n = model.queue.clips.len();
    if n == 0 {
        return cancel(model);
    }
    model.queue.clips.clear();
    model.note(Tone::Info, format!("{} dropped from the queue", plural(n as u64, "clip")));
}

/// What that is called.
pub(crate) fn cancel_word(model: &Model) -> &'static str {
    if model.queue.clips.is_empty() { "cancel" } else { "drop the queue" }
}
