//! Comparing methods: one run after another on the same prefill, and the race between them.

use super::*;
use crate::tui::model::compare::{Below, Comparison, Lane, sweep_values};
use specreel_client::present::player::Race;
use specreel_record::speedup::plain_speed;

/// Choose the methods; autoregressive and the selected one are picked already.
pub(super) fn open(model: &mut Model) {
    let n = model.methods.turned.len();
    if model.picked.len() != n {
        model.picked = vec![false; n];
    }
    for (i, method) in model.methods.turned.iter().enumerate() {
        model.picked[i] |= i == model.methods.chosen || method.is_autoregressive();
    }
    // Other models may have been loaded since they were picked.
    for i in 0..n {
        model.picked[i] &= model.unavailable(i).is_none();
    }
    model.overlay = Some(Overlay::Pick { query: String::new(), cursor: model.methods.chosen });
}

pub(super) fn reopen(model: &mut Model) {
    match model.comparison {
        Some(_) => model.overlay = Some(Overlay::Compare),
        None => model.note(Tone::Info, "no comparison yet: press c to compare methods"),
    }
}

pub(super) fn pick(model: &mut Model) {
    let Some(index) = model.picked_method() else { return };
    if let Some(why) = model.unavailable(index) {
        return model.note(Tone::Bad, why);
    }
    if let Some(picked) = model.picked.get_mut(index) {
        *picked = !*picked;
    }
}

pub(super) fn start(model: &mut Model) -> Vec<Effect> {
    let all = model.methods.turned.iter().enumerate();
    let wanted = all.filter(|(i, m)| model.picked.get(*i) == Some(&true) || m.is_autoregressive());
    let methods: Vec<Method> = wanted.map(|(_, m)| m.clone()).collect();
    begin(model, methods.into_iter().map(|method| (method, None)).collect(), None)
}

/// Run the selected method with its parameter at all values of its range.
pub(super) fn sweep(model: &mut Model) -> Vec<Effect> {
    let Some(knob) = model.methods.active_knob() else {
        model.note(Tone::Info, "this method has no adjustable parameter");
        return Vec::new();
    };
    let (span, counts) = model.methods.knob_range(&knob);
    let at = |value| Some((model.methods.with(&knob, value)?, Some(value)));
    let swept: Vec<_> = sweep_values(span, counts).into_iter().filter_map(at).collect();
    let plain = model.methods.turned.iter().find(|m| m.is_autoregressive()).cloned();
    begin(model, plain.map(|plain| (plain, None)).into_iter().chain(swept).collect(), Some(knob.key.name))
}

/// Run methods, each with the value of the parameter that is swept, if one is.
fn begin(
    model: &mut Model,
    mut methods: Vec<(Method, Option<f64>)>,
    swept: Option<&'static str>,
) -> Vec<Effect> {
    if let Some(problem) = engine_problem(model) {
        model.note(Tone::Bad, problem);
        return Vec::new();
    }
    if let Some(error) = methods.iter().find_map(|(method, _)| method.validate().err()) {
        model.note(Tone::Bad, error.to_string());
        return Vec::new();
    }
    if batch::is_in_the_way(model) || models::are_in_the_way(model) {
        return Vec::new();
    }
    let Some(subject) = runs::subject(model) else { return Vec::new() };
    // The baseline runs first, so that the others show their speedup at once.
    methods.sort_by_key(|(method, _)| !method.is_autoregressive());
    let mut lanes = Vec::new();
    let mut queue = std::collections::VecDeque::new();
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
    model.comparison = Some(Comparison { title, lanes, cursor: 0, swept, below, race: None });
    model.overlay = Some(Overlay::Compare);
    runs::replace(model, queue)
}

pub(super) fn is_its_own(action: Action) -> bool {
    use Action::{Faster, NextPane, Pause, PreviousPane, SeekBack, SeekForward, Slower};
    [Faster, NextPane, Pause, PreviousPane, SeekBack, SeekForward, Slower].contains(&action)
}

pub(super) fn control(model: &mut Model, action: Action) {
    let Some(comparison) = &mut model.comparison else { return };
    match action {
        Action::NextPane => comparison.below = comparison.below.next(1),
        Action::PreviousPane => comparison.below = comparison.below.next(-1),
        _ => {}
    }
    if comparison.below != Below::Race {
        if let Some((_, race)) = &mut comparison.race {
            race.pause();
        }
        return;
    }
    line_up(model);
    let race = model.comparison.as_mut().and_then(|comparison| comparison.race.as_mut());
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

/// The runs that have ended take part in the race; it starts again when another one joins.
fn line_up(model: &mut Model) {
    let Some(comparison) = &model.comparison else { return };
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
    let Some(comparison) = &mut model.comparison else { return };
    match (players, &mut comparison.race) {
        (Some(players), _) => comparison.race = Some((lanes, Race::new(players))),
        (None, Some((_, race))) => race.take(times),
        (None, None) => {}
    }
}

pub(super) fn advance(model: &mut Model, ms: f64) {
    line_up(model);
    if let Some((_, race)) = model.comparison.as_mut().and_then(|c| c.race.as_mut()) {
        race.advance(ms);
    }
}

/// Show the selected lane's run in the panes.
pub(super) fn choose(model: &mut Model) {
    let Some(comparison) = &model.comparison else { return };
    let run = comparison.lanes.get(comparison.cursor).map(|l| l.run);
    match run.and_then(|run| model.runs.all.iter().position(|r| r.id() == run)) {
        Some(at) => {
            model.runs.shown = at;
            model.caption_up = 0;
        }
        None => model.overlay = Some(Overlay::Compare),
    }
}
