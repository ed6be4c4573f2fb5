//! The first and the last line: what is chosen, what the engine does, and which keys work now.

use ratatui::{
    Frame,
    layout::Rect,
    text::{Line, Span},
    widgets::Paragraph,
};

use super::{bars, caption};
use crate::{
    record::Stage,
    tui::{
        Action, Key, Place, Theme,
        model::{EngineState, Layer, Model, Tone, run::RunState},
        text,
        theme::Role,
    },
};

/// The pictures of the spinner.
pub(super) const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

/// The first line: the method on the left, the models on the right.
pub(super) fn header(model: &Model, theme: &Theme, frame: &mut Frame<'_>, area: Rect) {
    let dim = theme.style(Role::Dim);
    let columns = usize::from(area.width);
    let mut left =
        Line::from(Span::styled(" specreel ", theme.style(Role::Accent).patch(theme.style(Role::Title))));
    if let Some(method) = model.methods.current() {
        let lossless = model.methods.is_lossless(method);
        let label = text::fit(&model.methods.label(model.methods.chosen), columns / 3);
        left.push_span(Span::styled("│ ", dim));
        left.push_span(Span::styled(label, theme.style(Role::Title)));
        left.push_span(Span::styled(
            format!(" {}", caption::mark(lossless)),
            caption::mark_style(lossless, theme),
        ));
        if let Some(knob) = model.methods.active_knob() {
            left.push_span(Span::styled(format!(" │ [ {knob} ]"), dim));
        }
    }
    let right = match &model.engine {
        EngineState::Ready { target, drafter, device, dtype } => {
            let drafter = drafter.as_ref().map_or_else(String::new, |d| format!(" + {d}"));
            format!("{target}{drafter} · {device} · {dtype} ")
        }
        EngineState::Loading { .. } => "loading models ".into(),
        EngineState::Failed(_) => "no models ".into(),
    };
    let room = columns.saturating_sub(left.width() + 1);
    if room > 8 {
        let right = text::fit(&right, room);
        left.push_span(Span::raw(" ".repeat(columns.saturating_sub(left.width() + text::width(&right)))));
        left.push_span(Span::styled(right, dim));
    }
    frame.render_widget(Paragraph::new(left), area);
}

/// The last line.
pub(super) fn draw(model: &Model, theme: &Theme, frame: &mut Frame<'_>, area: Rect) {
    let columns = usize::from(area.width);
    let mut left = Line::from(Span::raw(" "));
    left.extend(doing(model, theme, columns));
    if let Some((tone, words)) = &model.notice {
        if left.spans.len() > 1 {
            left.push_span(Span::styled(" │ ", theme.style(Role::Dim)));
        }
        let style = theme.style(if *tone == Tone::Bad { Role::Bad } else { Role::Accent });
        let room = columns.saturating_sub(left.width() + 1);
        left.push_span(Span::styled(text::fit(words, room), style));
    }
    let room = columns.saturating_sub(left.width() + 2);
    let hints = hints(model, theme, room);
    left.push_span(Span::raw(" ".repeat(columns.saturating_sub(left.width() + hints.width() + 1))));
    left.spans.extend(hints.spans);
    frame.render_widget(Paragraph::new(left), area);
}

/// What the engine does, with a bar where it is known how far it is.
fn doing(model: &Model, theme: &Theme, columns: usize) -> Vec<Span<'static>> {
    let spin = Span::styled(format!("{} ", SPINNER[model.tick % SPINNER.len()]), theme.style(Role::Accent));
    let waits = if model.waiting.is_some() { ", then your run" } else { "" };
    let progress = |stage: Stage, done: u64, total: u64| {
        let mut spans = vec![spin.clone(), Span::raw(stage.doing())];
        if total > 0 {
            let cells = (columns / 10).clamp(6, 16);
            let (bar, rest) = bars::across(done as f64 / total as f64, cells);
            spans.push(Span::raw(" "));
            spans.push(Span::styled(bar, theme.style(Role::Gauge)));
            spans.push(Span::styled("─".repeat(rest), theme.style(Role::GaugeRest)));
            spans.push(Span::raw(format!(" {done}/{total}")));
        } else if done > 0 {
            spans.push(Span::raw(format!(" {done}")));
        }
        spans.push(Span::styled(waits, theme.style(Role::Dim)));
        spans
    };
    if let Some(run) = model.runs.active() {
        return match &run.state {
            RunState::Working { stage, done, total } => progress(*stage, *done, *total),
            RunState::Cancelling => vec![spin, Span::raw(format!("cancelling{waits}"))],
            _ => vec![spin, Span::raw("starting")],
        };
    }
    match &model.engine {
        EngineState::Loading { stage, done, total } => progress(*stage, *done, *total),
        EngineState::Failed(_) => vec![Span::styled("✗ no models", theme.style(Role::Bad))],
        EngineState::Ready { .. } if model.notice.is_some() => Vec::new(),
        EngineState::Ready { .. } => vec![Span::styled("● ", theme.style(Role::Good)), Span::raw("ready")],
    }
}

/// The actions worth telling of in each place, the most useful first.
fn useful(model: &Model) -> &'static [Action] {
    use Action::{
        Again, Back, Choose, ClearLine, Compare, Complete, Copy, Delete, Down, Edit, Export, Faster, Filter,
        FilterSessions, Heat, Help, History, Inspect, Interrupt, KnobUp, Methods, NextKnob, NextLoosened,
        NextMatch, NextPane, Open, PageDown, Pause, Pick, Presets, Preview, Prompt, Quit, Run, Save, Search,
        SeekForward, Segments, Sessions, StepForward, TokenForward, Yes,
    };
    let busy = model.runs.active().is_some();
    match model.place() {
        Place::List if matches!(model.layer, Some(Layer::Methods(_))) => {
            &[Choose, Edit, Save, KnobUp, NextKnob, Back]
        }
        Place::Edit => &[KnobUp, Edit, Choose, Save, Back],
        Place::List => &[Choose, Back],
        Place::Sessions => &[Choose, FilterSessions, Delete, Back],
        Place::Confirm => &[Yes, Back],
        Place::Pick => &[Choose, Pick, Back],
        Place::Compare if busy => &[NextPane, Back],
        Place::Compare => &[NextPane, Pause, SeekForward, Faster, Choose, Back],
        Place::Preview => &[Pause, SeekForward, Faster, Down, Run, Back],
        Place::Inspector => &[TokenForward, StepForward, NextLoosened, Heat, Back, Help],
        Place::Player => &[Pause, SeekForward, StepForward, Faster, Back, Again, Help],
        Place::Entry if matches!(model.layer, Some(Layer::Help { .. })) => &[Back, Down, PageDown],
        Place::Entry if matches!(model.layer, Some(Layer::Open { .. })) => {
            &[Choose, Complete, Back, ClearLine]
        }
        Place::Entry => &[Choose, Back, ClearLine],
        Place::Prompt if busy => &[Back, NextPane, Help],
        Place::Prompt => &[Run, NextPane, Presets, Methods, Help, History],
        _ if busy => &[Interrupt, Methods, NextPane, Help],
        Place::Library => {
            &[Run, Preview, Methods, Filter, Open, Prompt, NextPane, Sessions, Help, Quit, Segments]
        }
        Place::Reading if !model.search.query.is_empty() => &[NextMatch, Back, Search, NextPane, Help],
        _ if model.runs.all.is_empty() => &[Run, Methods, Prompt, NextPane, Help, Quit],
        _ => {
            &[Again, Methods, KnobUp, Compare, Inspect, Copy, Export, NextPane, Sessions, Help, Quit, Search]
        }
    }
}

/// As many keys as fit.
fn hints(model: &Model, theme: &Theme, columns: usize) -> Line<'static> {
    let mut line = Line::default();
    for action in useful(model) {
        let Some(key) = model.keymap.keys(model.place(), *action).first().copied() else { continue };
        let other = match action {
            Action::KnobUp => Some(Action::KnobDown),
            Action::SeekForward => Some(Action::SeekBack),
            Action::TokenForward => Some(Action::TokenBack),
            Action::StepForward => Some(Action::StepBack),
            Action::Faster => Some(Action::Slower),
            Action::NextMatch => Some(Action::PreviousMatch),
            _ => None,
        };
        let down = other.and_then(|other| model.keymap.keys(model.place(), other).first().copied());
        let key = down.map_or_else(String::new, short) + &short(key);
        let gap = if line.spans.is_empty() { "" } else { "  " };
        let more = gap.len() + text::width(&key) + 1 + action.short().len();
        if line.width() + more > columns {
            break;
        }
        line.push_span(Span::raw(gap));
        line.push_span(Span::styled(key, theme.style(Role::Key)));
        line.push_span(Span::styled(format!(" {}", action.short()), theme.style(Role::Dim)));
    }
    line
}

/// A key as the status line writes it.
fn short(key: Key) -> String {
    match key.to_string().as_str() {
        "left" => "←".into(),
        "right" => "→".into(),
        "up" => "↑".into(),
        "down" => "↓".into(),
        "minus" => "-".into(),
        other => other.to_owned(),
    }
}
