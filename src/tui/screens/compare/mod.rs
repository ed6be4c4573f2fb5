//! The comparison: a table that fills in while the methods run, one after another on the same prefill, and below it the
//! differing words, the race between them, or a chart of speedup against quality.

mod chart;
mod draw;
mod lanes;
mod race;

use std::collections::VecDeque;

use crate::look::{Action, KeyContext, Theme};
use crate::tui::model::compare::{Below, Comparison, Lane, sweep_values};
use crate::tui::model::{Keys, Model, Run, Screen, Tone, Turn};
use crate::tui::picker::{Move, cycle};
use crate::tui::update::{batch, engine_problem, models, runs};
use crate::tui::widgets::Frame;
use specreel_client::present::player::{Player, Race};
use specreel_record::{Pace, RunLog, speedup::plain_speed};
use specreel_speculate::Method;

/// Shows the last comparison, which the model keeps.
#[derive(Debug)]
pub(crate) struct CompareScreen;

pub(crate) fn reopen(model: &mut Model) {
    match model.runs.comparison {
        Some(_) => model.screens.open(CompareScreen),
        None => model.note(Tone::Info, "no comparison yet: press c to compare methods"),
    }
}

/// Run the selected method with its parameter at all values of its range.
pub(crate) fn sweep(model: &mut Model) {
    let Some(knob) = model.methods.active_knob() else {
        return model.note(Tone::Info, "this method has no adjustable parameter");
    };
    let (span, counts) = model.methods.knob_range(&knob);
    let at = |value| Some((model.methods.with(&knob, value)?, Some(value)));
    let swept: Vec<_> = sweep_values(span, counts).into_iter().filter_map(at).collect();
    let plain = model.methods.turned.iter().find(|m| m.is_autoregressive()).cloned();
    begin(model, plain.map(|plain| (plain, None)).into_iter().chain(swept).collect(), Some(knob.key.name))
}

/// Run methods, each with the value of the parameter that is swept, if one is.
pub(super) fn begin(model: &mut Model, mut methods: Vec<(Method, Option<f64>)>, swept: Option<&'static str>) {
    if let Some(problem) = engine_problem(model) {
        return model.note(Tone::Bad, problem);
    }
    if let Some(error) = methods.iter().find_map(|(method, _)| method.validate().err()) {
        return model.note(Tone::Bad, error.to_string());
    }
    if batch::is_in_the_way(model) || models::are_in_the_way(model) {
        return;
    }
    let Some(subject) = runs::subject(model) else { return };
    // The baseline runs first, so that the others show their speedup at once.
    methods.sort_by_key(|(method, _)| !method.is_autoregressive());
    let mut lanes = Vec::new();
    let mut queue = VecDeque::new();
    for (method, value) in methods {
        let mut waiting = runs::waiting(model, subject.clone(), method);
        // The table fills as the runs end; the race plays them.
        waiting.run.log = Player::live(RunLog::new(waiting.request.run), Pace::Off);
        lanes.push(Lane {
            run: waiting.request.run,
            label: waiting.run.label.clone(),
            lossless: waiting.run.lossless,
            autoregressive: waiting.run.autoregressive,
            value,
        });
        queue.push_back(waiting);
    }
    let title = subject.name();
    let below = if swept.is_some() { Below::Chart } else { Below::Words };
    model.runs.comparison = Some(Comparison { title, lanes, cursor: 0, swept, below, race: None });
    model.screens.open(CompareScreen);
    runs::replace(model, queue)
}

/// The runs that have ended take part in the race; it starts again when another one joins.
fn line_up(model: &mut Model) {
    let Some(comparison) = &model.runs.comparison else { return };
    let ended = |run: u64| model.runs.get(run).filter(|r| r.has_ended() && !r.log.whole().steps().is_empty());
    let runs = || comparison.lanes.iter().enumerate().filter_map(|(at, lane)| Some((at, ended(lane.run)?)));
    let plain = plain_speed(runs().map(|(_, run)| run.log.whole().stats()));
    let ms = |run: &Run| {
        let stats = run.log.whole().stats();
        let speed = stats.speed_beside(plain, run.autoregressive);
        if speed > 0.0 { stats.emitted as f64 * 1000.0 / speed } else { 0.0 }
    };
    let (lanes, times): (Vec<usize>, Vec<f64>) = runs().map(|(at, run)| (at, ms(run))).unzip();
    let is_new = comparison.race.as_ref().map_or(!lanes.is_empty(), |(before, _)| *before != lanes);
    let players = is_new.then(|| runs().map(|(_, run)| (run.log.clone(), ms(run))).collect());
    let Some(comparison) = &mut model.runs.comparison else { return };
    match (players, &mut comparison.race) {
        (Some(players), _) => comparison.race = Some((lanes, Race::new(players))),
        (None, Some((_, race))) => race.take(times),
        (None, None) => {}
    }
}

/// The race that is shown.
fn race(model: &Model) -> Option<&Race> {
    let comparison = model.runs.comparison.as_ref().filter(|c| c.below == Below::Race)?;
    comparison.race.as_ref().map(|(_, race)| race)
}

fn turn(model: &mut Model, by: isize) {
    let Some(comparison) = &mut model.runs.comparison else { return };
    comparison.below = cycle(&Below::ALL.map(|(below, _)| below), comparison.below, by);
    if comparison.below == Below::Race {
        line_up(model);
    } else if let Some((_, race)) = &mut comparison.race {
        race.pause();
    }
}

fn control(model: &mut Model, action: Action) {
    if model.runs.comparison.as_ref().is_none_or(|comparison| comparison.below != Below::Race) {
        return;
    }
    line_up(model);
    let race = model.runs.comparison.as_mut().and_then(|comparison| comparison.race.as_mut());
    let Some((_, race)) = race else { return };
    match action {
        Action::Pause => race.toggle(),
        Action::SeekBack => race.jump(-1.0),
        Action::SeekForward => race.jump(1.0),
        Action::Slower => race.change_speed(false),
        Action::Faster => race.change_speed(true),
        _ => {}
    }
}

impl Screen for CompareScreen {
    fn keys(&self, model: &Model) -> Keys {
        use Action::{Back, Choose, Down, Faster, NextPane, Pause, SeekForward};
        let hints: &[_] = match model.runs.comparison.as_ref().map(|comparison| comparison.below) {
            Some(Below::Race) if !model.is_running() => &[NextPane, Pause, SeekForward, Faster, Choose, Back],
            _ => &[NextPane, Down, Choose, Back],
        };
        Keys::new(KeyContext::Compare, "show", hints)
    }

    fn word(&self, action: Action, model: &Model) -> Option<&'static str> {
        match action {
            Action::Back if model.is_running() => Some(runs::cancel_word(model)),
            Action::Pause if !self.is_playing(model) => Some("play"),
            Action::NextPane => Some("view"),
            Action::Down => Some("method"),
            _ => None,
        }
    }

    /// Show the run of the selected lane in the panes.
    fn choose(&mut self, model: &mut Model) -> Turn {
        let lane =
            model.runs.comparison.as_ref().and_then(|comparison| comparison.lanes.get(comparison.cursor));
        let run = lane.map(|lane| lane.run);
        let Some(at) = run.and_then(|run| model.runs.place(run)) else { return Turn::Stay };
        model.runs.shown = at;
        model.caption.up = 0;
        Turn::Leave
    }

    fn act(&mut self, action: Action, model: &mut Model) -> Turn {
        use Action::{Back, Faster, NextPane, Pause, PreviousPane, SeekBack, SeekForward, Slower};
        match action {
            NextPane => turn(model, 1),
            PreviousPane => turn(model, -1),
            Pause | SeekBack | SeekForward | Slower | Faster => control(model, action),
            // The comparison stays open with the runs it has.
            Back if model.is_running() => runs::cancel_or_drop(model),
            _ => return Turn::Pass,
        }
        Turn::Stay
    }

    fn go(&mut self, go: Move, model: &mut Model) {
        let page = model.page();
        if let Some(comparison) = &mut model.runs.comparison {
            comparison.cursor = go.apply(comparison.cursor, comparison.lanes.len(), page);
        }
    }

    fn is_playing(&self, model: &Model) -> bool {
        race(model).is_some_and(Race::is_playing)
    }

    fn advance(&mut self, ms: f64, model: &mut Model) -> bool {
        if race(model).is_none() {
            return false;
        }
        line_up(model);
        if let Some((_, race)) = model.runs.comparison.as_mut().and_then(|c| c.race.as_mut()) {
            race.advance(ms);
        }
        true
    }

    fn draw(&self, model: &Model, theme: &Theme, frame: &mut Frame<'_>) {
        draw::draw(model, theme, frame);
    }
}
