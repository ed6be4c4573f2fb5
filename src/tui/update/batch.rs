//! Captioning the marked clips together: choosing, starting, what becomes of them, editing the captions.

use std::collections::BTreeMap;

use super::*;
use crate::tui::{
    BatchJob, BatchNews, CaptionEdit,
    model::{
        batch::{Batch, BatchClip, ClipState, Phase},
        library::{Entry, Kind},
        prompt::{MAX_PROMPT_BYTES, PromptEditor},
    },
};
use specreel_batch::{self as batch, Options, Outcome, rows::Caption};
use specreel_record::{Event, EventKind, Started};

/// Open the box with the marked clips, to be started from there; during a batch, with that batch.
pub(super) fn choose_marked(model: &mut Model) {
    if model.batches.active().is_some() {
        model.note(Tone::Info, "a batch is running: the marks stay until it is over");
        model.overlay = Some(Overlay::Batch);
        return;
    }
    let library = &model.library;
    let entry = |path: &PathBuf| library.entries.iter().find(|entry| entry.path == *path);
    let clips: Vec<BatchClip> = library.marked.iter().filter_map(entry).map(clip_of).collect();
    let Some(method) = runs::method_to_run(model) else { return };
    let Some(prompt) = runs::prompt_to_run(model) else { return };
    model.batches.next = Some(Batch {
        clips,
        cursor: 0,
        phase: Phase::Chosen,
        prompt,
        method,
        runs: 0..0,
        progress: batch::Progress::default(),
        retries: false,
        problem: None,
    });
    model.overlay = Some(Overlay::Batch);
}

/// A clip as a batch names it: its sidecar is next to the file; an embedded clip's is in the working directory.
fn clip_of(entry: &Entry) -> BatchClip {
    let clip = match entry.kind {
        Kind::Clip => batch::Clip {
            root: PathBuf::new().into(),
            relative: entry.path.file_name().unwrap_or_default().into(),
            file: Some(entry.path.clone()),
        },
        _ => batch::Clip::of_file(&entry.path),
    };
    BatchClip::new(&entry.title, clip)
}

pub(super) fn open(model: &mut Model) {
    match model.batches.shown() {
        Some(_) => model.overlay = Some(Overlay::Batch),
        None => {
            let key = model.keymap.shown(model.key_context(), &[crate::tui::Action::Mark]);
            model.note(Tone::Info, format!("no batch yet: mark clips in the library ({key}), then run"));
        }
    }
}

pub(super) fn close(model: &mut Model) {
    model.batches.next = None;
    model.overlay = None;
}

pub(super) fn choose(model: &mut Model) -> Vec<Effect> {
    if let Some(next) = model.batches.next.take() {
        model.prompt.remember(&next.prompt);
        model.library.marked.clear();
        return start(model, next);
    }
    let run = model.batches.last.as_ref().and_then(Batch::selected).map_or(0, |clip| clip.run);
    match model.runs.all.iter().rposition(|known| known.id() == run) {
        Some(at) => {
            model.runs.shown = at;
            (model.overlay, model.focus, model.caption_up) = (None, Pane::Caption, 0);
        }
        None => {
            model.overlay = Some(Overlay::Batch);
            model.note(Tone::Info, "no run of this clip to show");
        }
    }
    Vec::new()
}

/// Caption the clips that failed, or that a cancelled batch did not come to.
pub(super) fn retry(model: &mut Model) -> Vec<Effect> {
    let Some(last) = model.batches.last.take_if(|batch| !batch.is_active()) else { return Vec::new() };
    let lacks =
        |clip: &BatchClip| matches!(clip.state, ClipState::Failed(_) | ClipState::Waiting | ClipState::Busy);
    if model.batches.next.is_some() || !last.clips.iter().any(lacks) {
        model.batches.last = Some(last);
        model.note(Tone::Info, "no clip failed or was left");
        return Vec::new();
    }
    start(model, Batch { retries: true, ..last })
}

fn start(model: &mut Model, mut batch: Batch) -> Vec<Effect> {
    if models::are_in_the_way(model) {
        model.batches.next = Some(batch);
        return Vec::new();
    }
    for clip in &mut batch.clips {
        if matches!(clip.state, ClipState::Failed(_) | ClipState::Busy) {
            clip.state = ClipState::Waiting;
        }
    }
    (batch.phase, batch.problem) = (Phase::Waiting, None);
    model.overlay = Some(Overlay::Batch);
    model.batches.last = Some(batch);
    if let Some(problem) = engine_problem(model) {
        ended(model, Err(problem));
        return Vec::new();
    }
    runs::start_waiting(model)
}

pub(super) fn send(model: &mut Model) -> Vec<Effect> {
    let Some(mut batch) = model.batches.last.take() else { return Vec::new() };
    let waiting = batch.clips.iter().filter(|clip| clip.state == ClipState::Waiting);
    let clips: Vec<_> = waiting.map(|clip| clip.clip.clone()).collect();
    let first = model.runs.next;
    let subject = Subject { prompt: batch.prompt.clone(), ..Subject::default() };
    let request = runs::waiting(model, subject, batch.method.clone()).request;
    model.runs.next = first + clips.len() as u64;
    (batch.runs, batch.phase) = (first..model.runs.next, Phase::Running);
    batch.progress = batch::Progress { total: clips.len(), ..batch::Progress::default() };
    let known = |clip: &batch::Clip| {
        let path = clip.path();
        let said = Arc::clone(model.speech.get(&path)?);
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
            model.engine,
            specreel_engine::RunRequest { run: 0, ..request.clone() }
        ),
        ..Options::default()
    };
    model.batches.last = Some(batch);
    vec![Effect::Batch(Box::new(BatchJob { clips, options, said, request }))]
}

/// A run of the batch starts: from now on it is one of this session's runs.
pub(super) fn begun(model: &mut Model, event: &Event) {
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
    let method = batch.method.clone();
    // The next clip does not wait until this one has been watched.
    let run = runs::live(model, event.run, subject, method, Pace::Off);
    let is_last = model.runs.shown + 1 >= model.runs.all.len();
    // A run that is being watched is shown to its end.
    let follow = is_last && model.inspector.is_none() && !model.is_playing();
    if follow {
        model.caption_up = 0;
    }
    model.runs.add(run, follow);
}

pub(super) fn news(model: &mut Model, news: BatchNews) -> Vec<Effect> {
    match news {
        BatchNews::Clip { video, run, outcome, existing, progress } => {
            let Some(batch) = &mut model.batches.last else { return Vec::new() };
            batch.progress = *progress;
            let Some(clip) = batch.clip_mut(&video) else { return Vec::new() };
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
            Vec::new()
        }
        BatchNews::Ended(outcome) => {
            ended(model, outcome.map(|summary| summary.interrupted));
            runs::start_waiting(model)
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

pub(super) fn engine_failed(model: &mut Model, error: &str) {
    if model.batches.last.as_ref().is_some_and(|batch| batch.phase == Phase::Waiting) {
        ended(model, Err(error.to_owned()));
    }
}

/// Cancel the active batch; written files stay. `None` if there is none.
pub(super) fn cancel(model: &mut Model) -> Option<Vec<Effect>> {
    let batch = model.batches.last.as_mut().filter(|batch| batch.is_active())?;
    match batch.phase {
        Phase::Waiting => {
            ended(model, Ok(true));
            Some(Vec::new())
        }
        Phase::Running => {
            batch.phase = Phase::Cancelling;
            let active = model.runs.active().map(Run::id);
            if let Some(run) = active.and_then(|id| model.runs.get_mut(id)) {
                run.cancelling = true;
            }
            Some(vec![Effect::CancelBatch])
        }
        _ => Some(Vec::new()),
    }
}

/// True, with a notice, if a batch has to end before the requested work can run.
pub(super) fn is_in_the_way(model: &mut Model) -> bool {
    let active = model.batches.active().is_some();
    if active {
        let key = model.keymap.shown(model.key_context(), &[crate::tui::Action::Interrupt]);
        model.note(Tone::Info, format!("a batch is running: wait for its end, or cancel it with {key}"));
    }
    active
}

pub(super) fn edit(model: &mut Model) {
    model.edited = None;
    let clip = model.batches.shown().and_then(Batch::selected);
    match clip.and_then(|clip| clip.caption.as_ref()) {
        Some(caption) if caption.text.len() > MAX_PROMPT_BYTES => {
            model.note(Tone::Bad, "the caption is too long to edit here");
        }
        Some(caption) => {
            model.batches.editor = Some(PromptEditor::new(&caption.text));
            model.overlay = Some(Overlay::EditCaption);
        }
        None => model.note(Tone::Info, "this clip has no caption that can be edited here"),
    }
}

/// True if the caption in the editor differs from the clip's, or the segment's.
pub(super) fn is_changed(model: &Model) -> bool {
    if let Some(run) = model.edited.as_ref().and_then(|segment| model.runs.get(segment.run)) {
        let edited = model.batches.editor.as_ref().map(PromptEditor::text);
        return edited.as_deref() != Some(run.log.whole().text().trim());
    }
    let clip = model.batches.shown().and_then(Batch::selected).and_then(|clip| clip.caption.as_ref());
    let edited = model.batches.editor.as_ref().map(PromptEditor::text);
    edited.as_deref() != clip.map(|caption| caption.text.trim())
}

pub(super) fn save(model: &mut Model) -> Vec<Effect> {
    let Some(edited) = model.batches.editor.as_ref().map(PromptEditor::text) else { return Vec::new() };
    let (sidecar, cues) = (model.batches.sidecar, model.batches.cues);
    let Some(clip) = model.batches.shown().and_then(Batch::selected) else { return Vec::new() };
    let Some(caption) = clip.caption.as_ref().map(|caption| caption.edited(&edited)) else {
        return Vec::new();
    };
    let clip = clip.clip.clone();
    match sidecar {
        Some(sidecar) if sidecar.is_timed() && caption.pieces.is_empty() => {
            model.note(Tone::Bad, "this caption has no times: choose txt or json for the file");
            Vec::new()
        }
        Some(sidecar) => vec![Effect::SaveCaption(Box::new(CaptionEdit { clip, sidecar, cues, caption }))],
        None => {
            saved(model, &clip.path(), caption, Ok(None));
            Vec::new()
        }
    }
}

/// An edited caption was saved, or could not be: then it stays in the editor.
pub(super) fn saved(
    model: &mut Model,
    video: &std::path::Path,
    caption: Caption,
    outcome: Result<Option<PathBuf>, String>,
) {
    let file = match outcome {
        Ok(file) => file,
        Err(problem) => return model.note(Tone::Bad, problem),
    };
    if let Some(clip) = model.batches.last.as_mut().and_then(|batch| batch.clip_mut(video)) {
        clip.caption = Some(caption);
    }
    if model.overlay == Some(Overlay::EditCaption) {
        model.batches.editor = None;
        model.overlay = Some(Overlay::Batch);
    }
    match file {
        Some(file) => model.note(Tone::Info, format!("saved as {}", file.display())),
        None => model.note(Tone::Info, "kept for this session: no files are written (press f)"),
    }
}
