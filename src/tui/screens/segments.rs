//! Captioning the selected clip in segments: their length is typed.

use crate::look::Theme;
use crate::tui::model::{Keys, Model, Screen, Tone, Turn};
use crate::tui::update::{models, runs};
use crate::tui::widgets::{Frame, line_box};
use crate::tui::{effect::Effect, line::InputLine};
use specreel_record::span;
use specreel_video::{Division, Scenes};

#[derive(Debug)]
pub(crate) struct SegmentsLine {
    line: InputLine,
}

pub(crate) fn open(model: &mut Model) {
    if runs::selected_subject(model).is_some() {
        model.screens.open(SegmentsLine { line: InputLine::suggested(&model.library.segment_length) });
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
fn choose(model: &mut Model, typed: &str) -> Turn {
    let Some(division) = division(typed) else {
        model.note(
            Tone::Bad,
            "invalid segments: expected at least one second, such as 30 or 1:30, or scenes, or scenes 35 (a threshold \
             to 255)",
        );
        return Turn::Stay;
    };
    if models::are_in_the_way(model) {
        return Turn::Leave;
    }
    let Some(subject) = runs::selected_subject(model) else { return Turn::Leave };
    model.library.segment_length = typed.trim().to_owned();
    let video = subject.video.clone();
    model.prompt.remember(&subject.prompt);
    model.queue.cutting = Some(subject);
    if matches!(division, Division::Scenes(_)) {
        model.note(Tone::Info, "finding scenes …");
    }
    model.emit(Effect::Cut(video, division));
    Turn::Leave
}

impl Screen for SegmentsLine {
    fn keys(&self, _model: &Model) -> Keys {
        Keys::line("run")
    }

    fn choose(&mut self, model: &mut Model) -> Turn {
        choose(model, &self.line.text)
    }

    fn line(&mut self) -> Option<&mut InputLine> {
        Some(&mut self.line)
    }

    fn draw(&self, _model: &Model, theme: &Theme, frame: &mut Frame<'_>) {
        line_box("Segment length (30, 1:30), or scenes", &self.line, &[], theme, frame);
    }
}
