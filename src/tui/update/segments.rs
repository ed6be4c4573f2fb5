//! Captioning the selected clip piece by piece: one run for each piece, one after another.

use std::sync::Arc;

use super::runs;
use crate::{
    record::{Segment, Span, span},
    tui::{
        Effect,
        model::{Model, Overlay, Pane, Tone, run::Subject},
        view::is_stacked,
    },
};

/// Ask for the length of a piece.
pub(super) fn open(model: &mut Model) {
    if runs::selected_subject(model).is_some() {
        model.layer = Some(Overlay::Segments(model.segment_length.clone()));
    }
}

/// The length is typed: ask for the pieces of the clip, which needs a look at its file.
pub(super) fn choose(model: &mut Model, typed: &str) -> Vec<Effect> {
    let Some(seconds) = span::seconds(typed).filter(|s| *s >= span::LEAST_SEGMENT_S) else {
        model.note(Tone::Bad, "the length of a piece is written as 30 or 1:30, and at least one second");
        model.layer = Some(Overlay::Segments(typed.to_owned()));
        return Vec::new();
    };
    let Some(subject) = runs::selected_subject(model) else { return Vec::new() };
    model.segment_length = typed.trim().to_owned();
    let video = subject.video.clone();
    model.prompt.remember(&subject.prompt);
    model.cutting = Some(subject);
    vec![Effect::Cut(video, seconds)]
}

/// The pieces are known, or the clip cannot be cut.
pub(super) fn cut(model: &mut Model, pieces: Result<Vec<Span>, String>) -> Vec<Effect> {
    let Some(subject) = model.cutting.take() else { return Vec::new() };
    match pieces {
        Ok(pieces) => begin(model, Subject { pieces: pieces.into(), ..subject }),
        Err(problem) => {
            model.note(Tone::Bad, problem);
            Vec::new()
        }
    }
}

/// Run all pieces of a subject with the chosen method.
pub(super) fn begin(model: &mut Model, subject: Subject) -> Vec<Effect> {
    let Some(method) = runs::method_to_run(model) else { return Vec::new() };
    let pieces = Arc::clone(&subject.pieces);
    let (first, count) = (model.runs.next, pieces.len());
    let run = |(index, span): (usize, &Span)| {
        let segment = Some(Segment { first, index, count });
        runs::waiting(model, Subject { span: Some(*span), segment, ..subject.clone() }, method.clone())
    };
    let queue = pieces.iter().enumerate().map(run).collect();
    let effects = runs::cancel(model);
    model.queue = queue;
    model.notice = None;
    if is_stacked(model.size) && model.focus != Pane::Prompt {
        model.focus = Pane::Caption;
    }
    effects.into_iter().chain(runs::start_waiting(model)).collect()
}
