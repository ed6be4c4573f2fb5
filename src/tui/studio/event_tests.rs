//! What the engine's events and other messages change.

use super::*;
use crate::tui::{
    Action, Studio,
    model::{EngineState, run::Activity},
    testing::{after_a_run, done, notice, press, prompt, ready, ready_event, screen, step, studio},
};
use specreel_record::{Estimate, Event, EventKind, Failure, FailureClass, Ready, Stage, StopReason, Verdict};

fn engine(run: u64, kind: EventKind) -> Msg {
    Msg::Engine(Event::new(run, kind))
}

fn failure(error: &str) -> Failure {
    Failure { class: FailureClass::Input, error: error.into(), hint: Some("do this".into()) }
}

/// Notes are shown when they come, once, and stay readable.
#[test]
fn notes_are_announced_once_and_stay_in_the_meters() {
    let mut studio = ready();
    let prompt = || prompt(&["the video is damaged: 3 frames\u{1b}[2J are missing"]);
    press(&mut studio, "enter");
    studio.handle(engine(1, prompt()));
    assert_eq!(notice(&mut studio), "note: the video is damaged: 3 frames are missing");
    press(&mut studio, "tab");
    assert_eq!(notice(&mut studio), "");
    studio.handle(done(1, StopReason::Eos, "A ball."));
    press(&mut studio, "esc r");
    studio.handle(engine(2, prompt()));
    assert_eq!(notice(&mut studio), "", "it was announced for the run before");
    let screen = screen(&studio, 120, 40);
    assert!(screen.contains("note      the video is damaged: 3 frames are missing"), "{screen}");
    assert!(screen.contains("· 1 note in the meters"), "{screen}");
}

/// It comes with every run of the default method.
#[test]
fn what_was_chosen_takes_one_line() {
    let mut studio = ready();
    press(&mut studio, "enter");
    let chosen =
        "chosen for this run: draft model that sees no visual tokens; 1.24 s expected, 2.03 s without drafts";
    studio.handle(engine(1, prompt(&[chosen])));
    studio.handle(done(1, StopReason::Eos, "A ball."));
    assert_eq!(notice(&mut studio), "");
    for columns in [80, 120, 200] {
        studio.handle(Msg::Resize(columns, 40));
        let screen = screen(&studio, columns, 40);
        let lines = screen.lines().filter(|line| line.contains("draft model that")).count();
        // A small screen has no room for notes.
        assert_eq!(lines, usize::from(columns > 80), "{screen}");
        assert!(!screen.contains("1 note"), "{screen}");
    }
}

#[test]
fn notes_of_the_models_are_shown_before_and_beside_runs() {
    let mut studio = studio();
    let Msg::Engine(mut ready) = ready_event() else { panic!("no event") };
    if let EventKind::Ready(Ready { notes, .. }) = &mut ready.kind {
        notes.push("repetition_penalty 1.05 is ignored".into());
    }
    studio.handle(Msg::Engine(ready));
    assert_eq!(notice(&mut studio), "note: repetition_penalty 1.05 is ignored");
    let shows = |studio: &Studio| screen(studio, 120, 40).contains("1.05 is ignored");
    press(&mut studio, "tab");
    assert!(shows(&studio), "in place of the caption");
    press(&mut studio, "esc enter");
    assert!(shows(&studio), "in the meters");
}

#[test]
fn events_of_a_run_become_its_state() {
    let mut studio = ready();
    press(&mut studio, "enter");
    studio.handle(engine(1, EventKind::Stage { stage: Stage::Encode, done: 3, total: 8, left_ms: None }));
    let run = studio.model().runs.shown().unwrap().clone();
    assert_eq!(run.activity(), Activity::Working { stage: Stage::Encode, done: 3, total: 8, left_ms: None });
    let [tower_ms, prompt_ms, writing_ms] = [130_000.0, 40_000.0, 12_300.0].map(Some);
    let estimate = Estimate { tower_ms, prompt_ms, writing_ms, ..Estimate::default() };
    studio.handle(engine(1, EventKind::Estimate(estimate)));
    for (left_ms, words) in [(None, "(about 3 min)"), (Some(39_600.0), "(0:40 left)")] {
        studio.handle(engine(1, EventKind::Stage { stage: Stage::Decode, done: 1, total: 12, left_ms }));
        let screen = screen(&studio, 120, 40);
        assert!(screen.contains(words), "no {words} in\n{screen}");
    }
    studio.handle(step(1, &[("日", Verdict::Exact), ("", Verdict::Loosened), ("本", Verdict::Exact)], 3));
    let run = studio.model().runs.shown().unwrap().clone();
    assert_eq!(
        run.log.chunks()[1].verdict,
        Verdict::Loosened,
        "text of two tokens has the least strict verdict"
    );
    assert_eq!((run.stats().emitted, run.stats().steps), (3, 1));
    studio.handle(done(1, StopReason::Length, "日本!"));
    assert_eq!(studio.caption(), "日本!");
    studio.handle(step(1, &[("late", Verdict::Exact)], 1));
    assert_eq!(studio.caption(), "日本!", "events after the end are ignored");
    assert!(studio.handle(step(77, &[("?", Verdict::Exact)], 1)).is_empty());
}

#[test]
fn a_failed_run_says_why_and_the_next_one_can_begin() {
    let mut studio = ready();
    press(&mut studio, "enter");
    studio.handle(engine(1, EventKind::Failed(failure("not a video\u{1b}[31m"))));
    let run = studio.model().runs.shown().unwrap();
    assert_eq!(run.log.failure().unwrap().error, "not a video");
    assert!(matches!(press(&mut studio, "enter")[..], [Effect::Run(_)]));
}

#[test]
fn an_engine_that_fails_or_stops_is_reported_once() {
    let mut studio = studio();
    press(&mut studio, "enter");
    studio.handle(engine(0, EventKind::Failed(failure("model not found"))));
    studio.handle(Msg::EngineGone);
    assert!(matches!(&studio.model().models.engine, EngineState::Failed(f) if f.error == "model not found"));
    assert!(press(&mut studio, "enter").is_empty());
    assert!(notice(&mut studio).contains("model not found"));
    let mut studio = ready();
    press(&mut studio, "enter");
    studio.handle(Msg::EngineGone);
    assert!(studio.model().runs.shown().unwrap().log.failure().is_some());
    assert!(!studio.is_busy());
}

#[test]
fn clips_are_probed_one_after_another() {
    let mut studio = ready();
    studio.model().config.probe = Some(std::sync::Arc::new(|_| Err(String::new())));
    let effects = press(&mut studio, "down");
    assert_eq!(effects, [Effect::Probe("/demo/1.mp4".into())]);
    let facts = crate::tui::ClipFacts { seconds: Some(4.0), ..Default::default() };
    let effects = studio.handle(Msg::Probed { path: "/demo/1.mp4".into(), facts: Ok(facts.clone()) });
    assert_eq!(effects, [Effect::Probe("/demo/0.mp4".into())]);
    assert!(studio.handle(Msg::Probed { path: "/demo/0.mp4".into(), facts: Ok(facts) }).is_empty());
}

#[test]
fn directories_that_are_empty_or_unreadable_are_reported() {
    let mut studio = ready();
    let note = Some("no videos in /v".into());
    studio.handle(Msg::Scanned { folder: "/v".into(), found: Ok(vec![]), note });
    assert_eq!(notice(&mut studio), "no videos in /v");
    studio.handle(Msg::Scanned { folder: "/v".into(), found: Err("cannot read /v".into()), note: None });
    assert_eq!(notice(&mut studio), "cannot read /v");
}

#[test]
fn the_spinner_turns_only_while_the_engine_is_busy() {
    let mut studio = studio();
    assert!(studio.is_busy());
    studio.handle(Msg::Tick);
    assert_eq!(studio.model().look.tick, 1);
    studio.handle(ready_event());
    assert!(!studio.is_busy());
    press(&mut studio, "enter");
    assert!(studio.is_busy());
    studio.handle(done(1, StopReason::Eos, ""));
    assert!(!studio.is_busy());
}

#[test]
fn every_action_is_possible_in_every_context() {
    for setup in
        ["v", "tab", "tab tab", "tab tab tab", "m", "p", "?", "/", "o", "enter", "L", "tab tab /", "e ctrl-r"]
    {
        for action in Action::ALL {
            let mut studio = after_a_run();
            press(&mut studio, setup);
            actions::act(studio.model(), *action);
            studio.picture(100, 30);
        }
    }
}
