//! The first and the last line: method, models, the engine's state, and the available keys.

use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Padding, Paragraph};

use crate::look::{Action, Key, KeyCode, KeyContext, Role, Theme};
use crate::tui::model::{Activity, EngineState, Model, Run, Tone};
use crate::tui::text;
use crate::tui::widgets::{Frame, SPINNER, Target, cut, mark, rule, track, wrap};
use specreel_client::present::estimate;
use specreel_record::{Ready, Stage};

/// Less time left is not shown, in milliseconds.
const LEFT_MS: f64 = 1000.0;

const LONG: u16 = 4;

/// The first line: the method on the left, the models on the right.
pub(super) fn header(model: &Model, theme: &Theme, frame: &mut Frame<'_>, area: Rect) {
    let dim = theme.style(Role::Dim);
    let strong = theme.style(Role::Accent).patch(theme.style(Role::Title));
    let mut left = Line::from(Span::styled(" specreel ", strong));
    let mut keys = Vec::new();
    if let Some(method) = model.methods.current() {
        let label = text::fit(&model.methods.label(model.methods.chosen), usize::from(area.width) / 3);
        left.extend([
            Span::styled("│ ", dim),
            theme.span(Role::Title, label),
            Span::raw(" "),
            mark(method.lossless(), theme),
        ]);
        if let Some(knob) = model.methods.shown_knob() {
            let key = |action| model.keymap.shown(KeyContext::Everywhere, &[action]);
            let (down, up) = (key(Action::KnobDown), key(Action::KnobUp));
            let at = left.width() + 3;
            left.push_span(Span::styled(format!(" │ {down} {knob} {up}"), dim));
            keys.push((at, text::width(&down), Action::KnobDown));
            keys.push((left.width() - text::width(&up), text::width(&up), Action::KnobUp));
            // The keys of all numbers, where there is room.
            if area.width >= 120 && model.methods.knobs().len() > 1 {
                let at = left.width() + 2;
                left.push_span(Span::styled(format!("  {} next", key(Action::NextKnob)), dim));
                keys.push((at, left.width() - at, Action::NextKnob));
            }
        }
    }
    let key = model.keymap.shown(KeyContext::Everywhere, &[Action::FirstModel]);
    let offers = model.config.models.is_some() && !key.is_empty() && area.width >= 100;
    let badge = match model.is_out_of_depth() {
        true if offers => format!(" toy models · {key} gets a real one "),
        true => " toy models ".to_owned(),
        false => String::new(),
    };
    // The badge stays; everything else may be left out.
    let most = usize::from(area.width).saturating_sub(text::width(&badge));
    while left.width() > most && left.spans.len() > 1 {
        left.spans.pop();
    }
    for (at, columns, action) in keys.into_iter().filter(|(at, columns, _)| at + columns <= left.width()) {
        let place = Rect { x: area.x + at as u16, width: columns as u16, ..area };
        frame.mark(place, Target::Key(action));
    }
    let right = match &model.models.engine {
        EngineState::Ready(Ready { target, drafter, device, dtype, .. }) => {
            let drafter = drafter.as_ref().map_or_else(String::new, |d| format!(" + {d}"));
            let server =
                model.config.server.as_ref().map_or_else(String::new, |server| format!("{server} · "));
            format!("{server}{target}{drafter} · {device} · {dtype} ")
        }
        EngineState::Loading { .. } => "loading models ".into(),
        EngineState::Failed(_) if model.config.server.is_some() => "no connection ".into(),
        EngineState::Failed(_) => "no models ".into(),
    };
    let room = usize::from(area.width).saturating_sub(left.width() + 1 + text::width(&badge));
    let right = if room > 8 { text::fit(&right, room) } else { String::new() };
    let badge = Span::styled(badge, theme.style(Role::Warn).add_modifier(Modifier::REVERSED));
    let gap = Span::raw(if badge.content.is_empty() || right.is_empty() { "" } else { " " });
    frame.render_widget(Line::from(vec![badge, gap, Span::raw(right)]).style(dim).right_aligned(), area);
    frame.render_widget(left, area);
}

pub(super) fn draw(model: &Model, theme: &Theme, frame: &mut Frame<'_>, area: Rect) {
    let columns = usize::from(area.width);
    let mut left = Line::from(Span::raw(" "));
    left.extend(doing(model, theme, columns));
    if let Some((tone, words)) = model.notices.shown.as_ref().filter(|(_, words)| has_room(words, columns)) {
        if left.spans.len() > 1 {
            left.push_span(theme.span(Role::Dim, " │ "));
        }
        let words = text::fit(words, columns.saturating_sub(left.width() + 1));
        left.push_span(Span::styled(words, notice_style(*tone, theme)));
    }
    hints(model, theme, columns.saturating_sub(left.width() + 2), frame, area);
    frame.render_widget(left, area);
}

fn notice_style(tone: Tone, theme: &Theme) -> Style {
    theme.style(if tone == Tone::Bad { Role::Bad } else { Role::Accent })
}

/// True if a notice leaves room on the last line for the engine's state and the most important keys.
fn has_room(words: &str, columns: usize) -> bool {
    text::width(words) + 24 <= columns
}

/// A notice that is too long for the last line, above it.
pub(super) fn long_notice(model: &Model, theme: &Theme, frame: &mut Frame<'_>, status: Rect) {
    let Some((tone, words)) = &model.notices.shown else { return };
    let columns = usize::from(status.width).saturating_sub(4);
    if has_room(words, status.width.into()) || status.y < LONG + 2 {
        return;
    }
    let mut lines = wrap([(words.as_str(), notice_style(*tone, theme))], columns);
    cut(&mut lines, LONG.into(), columns);
    let high = lines.len() as u16 + 1;
    let area = Rect { y: status.y - high, height: high, ..status };
    frame.mark(area, Target::Box);
    frame.render_widget(Clear, area);
    frame.buffer_mut().set_style(area, theme.style(Role::Text));
    let block = rule(theme).border_style(theme.style(Role::BorderFocus)).padding(Padding::horizontal(2));
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

/// What the engine does, with a progress bar if the total is known.
fn doing(model: &Model, theme: &Theme, columns: usize) -> Vec<Span<'static>> {
    let spin = theme.span(Role::Accent, format!("{} ", SPINNER[model.look.tick % SPINNER.len()]));
    let queued = queued(model, columns / 3);
    let progress = |doing: &'static str, done: u64, total: u64| {
        let mut spans = vec![spin.clone(), Span::raw(doing)];
        if total > 0 {
            spans.push(Span::raw(" "));
            spans.extend(track(done as f64 / total as f64, (columns / 10).clamp(6, 16), theme));
            spans.push(Span::raw(format!(" {done}/{total}")));
        } else if done > 0 {
            spans.push(Span::raw(format!(" {done}")));
        }
        spans.push(theme.span(Role::Dim, queued.clone()));
        spans
    };
    if let Some(run) = model.runs.active() {
        let mut spans = match run.activity() {
            // The length of a caption is not known before its end.
            Activity::Working { stage: Stage::Generate, .. } => {
                progress(Stage::Generate.doing(), run.stats().emitted, 0)
            }
            Activity::Working { stage, done, total, left_ms } => {
                let mut spans = progress(stage.doing(), done, total);
                let time = time_left(run, stage, left_ms).map(|time| format!(" {time}"));
                spans.extend(time.map(|time| theme.span(Role::Dim, time)));
                spans
            }
            Activity::Cancelling => vec![spin, Span::raw(format!("cancelling{queued}"))],
            _ => vec![spin, Span::raw(format!("starting{queued}"))],
        };
        if let Some(which) = which(model, run) {
            spans.insert(1, theme.span(Role::Dim, format!("{which} · ")));
        }
        return spans;
    }
    if let Some(proof) = &model.runs.proof {
        return match proof.log.stage() {
            Some((stage, done, total)) if stage != Stage::Generate => progress(stage.doing(), done, total),
            _ => progress("verifying", proof.log.token_count() as u64, proof.tokens.max(1) as u64),
        };
    }
    if let Some(batch) = model.batches.active().filter(|batch| batch.is_running()) {
        return vec![spin, Span::raw(format!("batch {} of {}", batch.over(), batch.clips.len()))];
    }
    match &model.models.engine {
        EngineState::Loading { stage, done, total } => progress(stage.doing(), *done, *total),
        EngineState::Failed(_) => vec![theme.span(Role::Bad, "✗ no models")],
        EngineState::Ready(_) if model.notices.shown.is_some() => Vec::new(),
        EngineState::Ready(_) => vec![theme.span(Role::Good, "● "), Span::raw("ready")],
    }
}

/// How long the stage still takes, or, before the first slow one, the whole run; nothing for short stages.
fn time_left(run: &Run, stage: Stage, left_ms: Option<f64>) -> Option<String> {
    match left_ms.filter(|ms| *ms >= LEFT_MS) {
        Some(ms) => Some(format!("({} left)", estimate::left(ms))),
        None if stage == Stage::Decode => Some(format!("({})", estimate::expected(run.log.estimate()?)?)),
        None => None,
    }
}

/// What runs next: the request that replaces the active one, and the queued clips by their names.
fn queued(model: &Model, columns: usize) -> String {
    let next = if model.queue.next.is_some() { ", then your run" } else { "" };
    let titles: Vec<_> = model.queue.clips.iter().map(|waiting| waiting.run.subject.name()).collect();
    match titles.len() {
        0 => next.to_owned(),
        n => text::fit(&format!("{next} · {n} queued: {}", titles.join(", ")), columns.max(11)),
    }
}

/// Which of several runs it is: a segment of a clip, a method of a comparison.
fn which(model: &Model, run: &Run) -> Option<String> {
    if let Some(batch) = model.batches.active().filter(|batch| batch.runs.contains(&run.id())) {
        return Some(format!("clip {} of {}", batch.over() + 1, batch.clips.len()));
    }
    if let Some(segment) = run.subject.segment {
        return Some(format!("segment {segment}"));
    }
    let lanes = &model.runs.comparison.as_ref()?.lanes;
    let at = lanes.iter().position(|lane| lane.run == run.id())?;
    Some(format!("{} of {}", at + 1, lanes.len()))
}

/// The actions whose keys are shown, the most useful first.
fn useful(model: &Model) -> &'static [Action] {
    use Action::{
        Again, Back, Compare, Copy, Down, Export, Faster, Filter, Heat, Help, History, Inspect, Interrupt,
        KnobUp, Mark, MarkAll, Methods, NextLoosened, NextMatch, NextPane, Open, Pause, Presets, Preview,
        Prompt, Quit, Run, Sampling, Search, SeekForward, Segments, Sessions, Skip, StepForward, Steps,
        TokenForward, Verify,
    };
    if let Some(screen) = model.screens.top() {
        return screen.keys(model).hints;
    }
    let busy = model.is_running();
    match model.key_context() {
        KeyContext::Inspector => &[TokenForward, StepForward, NextLoosened, Heat, Back, Help],
        KeyContext::Steps if model.back_cancels() => &[Back, Down, NextLoosened, Inspect, NextPane, Help],
        KeyContext::Steps => &[Down, NextLoosened, Inspect, NextPane, Back, Help],
        KeyContext::Player => &[Pause, StepForward, Faster, Skip, SeekForward, Back, Again, Help],
        KeyContext::Prompt if busy => &[Back, Interrupt, NextPane, Help],
        KeyContext::Prompt => &[Run, NextPane, Presets, Methods, History, Sampling, Help],
        _ if model.back_cancels() => &[Back, Methods, NextPane, Help],
        _ if busy => &[Back, Interrupt, Methods, NextPane, Help],
        KeyContext::Library if model.shows_player() => {
            &[StepForward, Faster, Back, Run, Preview, Methods, NextPane, Help, Quit]
        }
        KeyContext::Library if !model.library.marked.is_empty() => {
            &[Run, Mark, MarkAll, Filter, Back, Help, Quit]
        }
        KeyContext::Library => {
            &[Run, Preview, Methods, Filter, Open, Prompt, NextPane, Segments, Sessions, Sampling, Help, Quit]
        }
        KeyContext::Reading if !model.caption.search.query.is_empty() => {
            &[NextMatch, Back, Search, NextPane, Help]
        }
        _ if model.runs.all.is_empty() => &[Run, Methods, Prompt, NextPane, Help, Quit],
        _ => &[
            Again, Methods, KnobUp, Compare, Inspect, Steps, Verify, Copy, Export, NextPane, Search,
            Sessions, Sampling, Help, Quit,
        ],
    }
}

fn word(model: &Model, action: Action) -> &'static str {
    if let Some(screen) = model.screens.top() {
        let usual = if action == Action::Choose { screen.keys(model).verb } else { action.short() };
        return screen.word(action, model).unwrap_or(usual);
    }
    match action {
        Action::Back if model.back_cancels() && !model.queue.clips.is_empty() => "drop the queue",
        Action::Back if model.back_cancels() => "cancel",
        Action::Back if model.shows_player() && model.shown_replay().is_none() => "skip",
        Action::Pause if !model.is_playing() => "play",
        Action::Down if model.key_context() == KeyContext::Steps => "step",
        _ => action.short(),
    }
}

/// As many keys as fit, at the right; those to go back, for help and to quit before all others. A click on one does the same.
fn hints(model: &Model, theme: &Theme, columns: usize, frame: &mut Frame<'_>, area: Rect) {
    let hint = |action: &Action| {
        let keys = keys(model, *action)?;
        Some((*action, keys, word(model, *action)))
    };
    // Runs of a server are started there.
    let is_possible = |action: &&Action| model.config.server.is_none() || !action.needs_engine();
    let all: Vec<_> = useful(model).iter().filter(is_possible).filter_map(hint).collect();
    let is_exit = |action| matches!(action, Action::Back | Action::Help | Action::Quit);
    let mut shown = vec![false; all.len()];
    let mut used = 0;
    for first in [true, false] {
        for (i, (action, keys, word)) in all.iter().enumerate() {
            if is_exit(*action) != first {
                continue;
            }
            let keys: usize = keys.iter().map(|(key, _)| text::width(key)).sum();
            let more = keys + 1 + word.len() + if used > 0 { 2 } else { 0 };
            if used + more > columns {
                break;
            }
            used += more;
            shown[i] = true;
        }
    }
    let mut x = area.right().saturating_sub(used as u16 + 1);
    let mut put = |x, words: String, role, action| {
        let place = Rect { x, width: text::width(&words) as u16, ..area };
        frame.render_widget(theme.span(role, words), place);
        frame.mark(place, Target::Key(action));
        place.right()
    };
    for ((action, keys, word), _) in all.into_iter().zip(shown).filter(|(_, shown)| *shown) {
        for (key, action) in keys {
            x = put(x, key, Role::Key, action);
        }
        x = put(x, format!(" {word}"), Role::Dim, action) + 2;
    }
}

/// The key of an action in this context, with its opposite's, in the order in which they are shown.
fn keys(model: &Model, action: Action) -> Option<Vec<(String, Action)>> {
    let context = model.key_context();
    let first = |action| model.keymap.first(context, action);
    let other = match action {
        Action::KnobUp => Some(Action::KnobDown),
        Action::SeekForward => Some(Action::SeekBack),
        Action::TokenForward => Some(Action::TokenBack),
        Action::StepForward => Some(Action::StepBack),
        Action::Faster => Some(Action::Slower),
        Action::Down => Some(Action::Up),
        Action::NextMatch => Some(Action::PreviousMatch),
        Action::NextLoosened => Some(Action::PreviousLoosened),
        _ => None,
    };
    // Tab works everywhere; an arrow that does the same works in this context only.
    let tab = Key::plain(KeyCode::Tab);
    let tab = (action == Action::NextPane).then(|| model.keymap.keys(context, action).contains(&tab));
    let forward = if tab == Some(true) { Key::plain(KeyCode::Tab).to_string() } else { first(action)? };
    let forward = (forward, action);
    let back = other.and_then(|other| Some((first(other)?, other)));
    Some(match back {
        Some((back, other)) if back.chars().all(char::is_alphabetic) => {
            vec![(forward.0 + " ", action), (back, other)]
        }
        Some(back) => vec![back, forward],
        None => vec![forward],
    })
}
