//! Notifies the user of the end of a batch or a long run while the terminal is not focused.

use crate::tui::model::{Model, TICK, notify::Work};
use crate::tui::{effect::Effect, text};
use specreel_client::present::formats::plural;
use specreel_record::{RunState, StopReason};

/// Ticks after which work is long: ten seconds.
const LONG: usize = (10_000 / TICK.as_millis()) as usize;

pub(crate) fn focused(model: &mut Model, is_focused: bool) {
    model.notices.is_away = !is_focused;
    model.notices.missed_failure &= !is_focused;
}

/// After each message: note when work begins, and notify when all of it is over.
pub(crate) fn follow(model: &mut Model) -> Option<Effect> {
    let is_batch = model.batches.active().is_some();
    if model.is_running() {
        let work = model.notices.work.get_or_insert(Work { since: model.look.tick, is_batch });
        work.is_batch |= is_batch;
        return None;
    }
    let work = model.notices.work.take()?;
    let is_long = work.is_batch || model.look.tick.saturating_sub(work.since) >= LONG;
    let (words, failed) = outcome(model, work.is_batch).filter(|_| model.notices.is_away && is_long)?;
    model.notices.missed_failure = failed;
    Some(Effect::Notify(words))
}

/// How the last work ended, and whether it failed; `None` if the user cancelled it.
fn outcome(model: &Model, is_batch: bool) -> Option<(String, bool)> {
    if let Some(batch) = model.batches.last.as_ref().filter(|_| is_batch) {
        if let Some(problem) = &batch.problem {
            return Some((format!("the batch stopped: {problem}"), true));
        }
        let (over, failed) = (batch.over(), batch.failed());
        let mut words = format!("{over} of {} done", plural(batch.clips.len() as u64, "clip"));
        if failed > 0 {
            words += &format!(", {failed} failed");
        }
        return Some((words, failed > 0));
    }
    let run = model.runs.all.iter().rfind(|run| !run.replayed)?;
    let name = run.subject.name();
    match run.log.whole().state() {
        RunState::Failed(failure) => {
            Some((text::clean_line(&format!("{name} failed: {}", failure.error)), true))
        }
        RunState::Done(StopReason::Cancelled) => None,
        _ => Some((text::clean_line(&format!("{name} is captioned")), false)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::{
        Effect, Msg, Studio,
        testing::{done, press, ready, step},
        window::Progress,
    };
    use specreel_record::{Event, EventKind, Failure, Verdict};

    fn ticks(studio: &mut Studio, n: usize) {
        for _ in 0..n {
            studio.handle(Msg::Tick);
        }
    }

    /// The words of a run that takes so many ticks, of which the user watches the first ones.
    fn ended(studio: &mut Studio, n: usize, end: Msg) -> Vec<Effect> {
        press(studio, "enter");
        studio.handle(step(1, &[("A", Verdict::Exact)], 1));
        studio.handle(Msg::Focus(false));
        ticks(studio, n);
        studio.handle(end)
    }

    #[test]
    fn a_user_who_is_away_hears_of_the_end_of_a_long_run() {
        let eos = || done(1, StopReason::Eos, "A");
        let notified = [Effect::Notify("Red ball is captioned".into())];
        assert_eq!(ended(&mut ready(), LONG, eos()), notified);
        assert_eq!(ended(&mut ready(), LONG - 1, eos()), [], "a short one");
        let mut back = ready();
        press(&mut back, "enter");
        ticks(&mut back, LONG);
        assert_eq!(back.handle(eos()), [], "nobody was away");
        assert_eq!(ended(&mut ready(), LONG, done(1, StopReason::Cancelled, "A")), []);
        // Clips that are queued are one piece of work.
        let mut queued = ready();
        press(&mut queued, "enter j enter");
        queued.handle(Msg::Focus(false));
        ticks(&mut queued, LONG / 2);
        assert!(matches!(queued.handle(eos())[..], [Effect::Run(_)]));
        ticks(&mut queued, LONG);
        let notified = [Effect::Notify("Two squares is captioned".into())];
        assert_eq!(queued.handle(done(2, StopReason::Eos, "B")), notified);
    }

    #[test]
    fn a_failure_that_was_missed_is_shown_until_the_user_is_back() {
        let mut studio = ready();
        let failed = Event::new(1, EventKind::Failed(Failure::internal("out\u{1b}[2J of memory", "")));
        let effects = ended(&mut studio, LONG, Msg::Engine(failed));
        assert_eq!(effects, [Effect::Notify("Red ball failed: out of memory".into())]);
        assert_eq!(studio.outside().progress, Progress::Failed);
        assert_eq!(studio.outside().title, "specreel: Red ball – failed");
        studio.handle(Msg::Focus(true));
        assert_eq!(studio.outside().progress, Progress::None);
    }

    #[test]
    fn the_window_says_how_far_the_work_is() {
        let mut studio = crate::tui::testing::studio();
        let stage = |stage, done, total| {
            Msg::Engine(Event::new(1, EventKind::Stage { stage, done, total, left_ms: None }))
        };
        assert_eq!(studio.outside().title, "specreel: loading models");
        studio.handle(crate::tui::testing::ready_event());
        assert_eq!(studio.outside().title, "specreel");
        press(&mut studio, "enter");
        studio.handle(stage(specreel_record::Stage::Decode, 1, 3));
        let outside = studio.outside();
        let said = (outside.title.as_str(), outside.progress);
        assert_eq!(said, ("specreel: Red ball – decoding video", Progress::Percent(33)));
        studio.handle(stage(specreel_record::Stage::Generate, 3, 0));
        assert_eq!(studio.outside().progress, Progress::Busy);
        studio.handle(done(1, StopReason::Eos, "A"));
        assert_eq!(studio.outside().title, "specreel: Red ball – done");
    }
}
