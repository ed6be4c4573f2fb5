//! Captioning the selected clip segment by segment: one run for each segment, one after another.

use super::*;
use specreel_record::{Segment, Span, span};
use specreel_video::{Division, Scenes};

pub(super) fn open(model: &mut Model) {
    if runs::selected_subject(model).is_some() {
        model.overlay = Some(Overlay::Segments(model.segment_length.clone()));
    }
}

/// A length, `scenes`, or `scenes` with a threshold.
fn division(typed: &str) -> Option<Division> {
    let Some(threshold) = typed.trim().strip_prefix("scenes") else {
        return span::seconds(typed).filter(|s| *s >= span::LEAST_SEGMENT_S).map(Division::Even);
    };
    let default = Scenes::default();
    let threshold = match threshold.trim() {
        "" => default.threshold,
        typed => typed.parse().ok().filter(|threshold| (0.1..=255.0).contains(threshold))?,
    };
    Some(Division::Scenes(Scenes { threshold, ..default }))
}

/// The length was typed: request the clip's segments, which needs its duration or its cuts.
pub(super) fn choose(model: &mut Model, typed: &str) -> Vec<Effect> {
    let Some(division) = division(typed) else {
        model.note(
            Tone::Bad,
            "invalid segments: expected at least one second, such as 30 or 1:30, or scenes, or scenes 35 (a threshold \
             to 255)",
        );
        model.overlay = Some(Overlay::Segments(typed.to_owned()));
        return Vec::new();
    };
    if models::are_in_the_way(model) {
        return Vec::new();
    }
    let Some(subject) = runs::selected_subject(model) else { return Vec::new() };
    model.segment_length = typed.trim().to_owned();
    let video = subject.video.clone();
    model.prompt.remember(&subject.prompt);
    model.cutting = Some(subject);
    if matches!(division, Division::Scenes(_)) {
        model.note(Tone::Info, "finding scenes …");
    }
    vec![Effect::Cut(video, division)]
}

pub(super) fn cut(model: &mut Model, segments: Result<Vec<Span>, String>) -> Vec<Effect> {
    let Some(subject) = model.cutting.take() else { return Vec::new() };
    match segments {
        Ok(segments) => begin(model, Subject { segments: segments.into(), ..subject }, &[]),
        Err(problem) => {
            model.note(Tone::Bad, problem);
            Vec::new()
        }
    }
}

/// Run all segments of a subject, with its prompt, or the prompts that some have of their own.
pub(super) fn begin(model: &mut Model, subject: Subject, own: &[(Span, String)]) -> Vec<Effect> {
    if batch::is_in_the_way(model) || models::are_in_the_way(model) {
        return Vec::new();
    }
    let Some(method) = runs::method_to_run(model) else { return Vec::new() };
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
    if is_stacked(model.size) && model.focus != Pane::Prompt {
        model.focus = Pane::Caption;
    }
    runs::replace(model, queue)
}
