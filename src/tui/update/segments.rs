//! Captioning the selected clip segment by segment: one run for each segment, one after another.

use std::sync::Arc;

use crate::tui::model::{Model, Subject, Tone};
use crate::tui::update::{batch, models, runs};
use specreel_record::{Segment, Span};

pub(crate) fn cut(model: &mut Model, segments: Result<Vec<Span>, String>) {
    let Some(subject) = model.queue.cutting.take() else { return };
    match segments {
        Ok(segments) => begin(model, Subject { segments: segments.into(), ..subject }, &[]),
        Err(problem) => model.note(Tone::Bad, problem),
    }
}

/// Run all segments of a subject, with its prompt, or the prompts that some have of their own.
pub(crate) fn begin(model: &mut Model, subject: Subject, own: &[(Span, String)]) {
    if batch::is_in_the_way(model) || models::are_in_the_way(model) {
        return;
    }
    let Some(method) = runs::method_to_run(model) else { return };
    let segments = Arc::clone(&subject.segments);
    let (first, count) = (model.runs.next, segments.len());
    let run = |(index, span): (usize, &Span)| {
        let segment = Some(Segment { first, index, count });
        let mut part = Subject { span: Some(*span), segment, ..subject.clone() };
        if let Some((_, prompt)) = own.iter().find(|(known, _)| known == span) {
            part.prompt.clone_from(prompt);
        }
        runs::waiting(model, part, method.clone())
    };
    let queue = segments.iter().enumerate().map(run).collect();
    runs::show_caption(model);
    runs::replace(model, queue);
}
