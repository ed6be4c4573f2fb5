//! The effect of every action, without a terminal.

use std::path::PathBuf;

use super::*;
use crate::{
    record::{Event, EventKind, Stage, StopReason, Verdict},
    tui::{
        Action, Found, Studio,
        model::{EngineState, Overlay, Pane, run::Activity},
        testing::{done, press, ready, ready_event, step, studio},
    },
};

fn notice(studio: &mut Studio) -> String {
    studio.model().notice.clone().map(|(_, words)| words).unwrap_or_default()
}

/// A studio whose first run has written a caption and ended.
fn after_a_run() -> Studio {
    let mut studio = ready();
    press(&mut studio, "enter");
    let tokens = [("A red", Verdict::Exact), (" ball", Verdict::Loosened), (".", Verdict::Corrected)];
    studio.handle(step(1, &tokens, 3));
    studio.handle(done(1, StopReason::Eos, "A red ball."));
    studio
}

fn run_of(effects: &[Effect]) -> Option<&crate::engine::RunRequest> {
    effects.iter().find_map(|e| if let Effect::Run(request) = e { Some(&**request) } else { None })
}

fn engine(run: u64, kind: EventKind) -> Msg {
    Msg::Engine(Event::new(run, kind))
}

fn failure(error: &str) -> Failure {
    Failure { class: FailureClass::Input, error: error.into(), hint: Some("do this".into()) }
}

#[test]
fn run_asks_the_engine_for_the_selected_clip() {
    let mut studio = ready();
    press(&mut studio, "down");
    let effects = press(&mut studio, "enter");
    let request = run_of(&effects).unwrap();
    assert_eq!((request.run, request.video.as_path()), (1, std::path::Path::new("/demo/1.mp4")));
    assert_eq!((request.prompt.as_str(), request.method.name.as_str()), ("Describe the video.", "lvspec"));
    assert_eq!(studio.model().runs.shown().unwrap().activity(), Activity::Sent);
}

#[test]
fn a_run_waits_for_the_models() {
    let mut studio = studio();
    assert!(press(&mut studio, "enter").is_empty());
    assert!(studio.model().waiting.is_some());
    let effects = studio.handle(ready_event());
    assert_eq!(run_of(&effects).unwrap().run, 1);
    assert!(studio.model().waiting.is_none());
}

#[test]
fn a_second_run_cancels_the_first_and_waits_for_its_end() {
    let mut studio = ready();
    press(&mut studio, "enter");
    assert_eq!(press(&mut studio, "enter"), [Effect::Cancel(1)]);
    assert!(press(&mut studio, "enter").is_empty(), "one cancel is enough");
    let effects = studio.handle(done(1, StopReason::Cancelled, ""));
    assert_eq!(run_of(&effects).unwrap().run, 3, "only the newest request counts");
}

#[test]
fn without_clip_or_prompt_a_run_says_what_is_missing() {
    let mut studio = ready();
    press(&mut studio, "e ctrl-u");
    studio.model().prompt.set("  ");
    assert!(press(&mut studio, "enter").is_empty());
    assert!(notice(&mut studio).contains("prompt is empty"));
    studio.model().library.entries.clear();
    studio.model().library.set_filter(String::new());
    assert!(press(&mut studio, "enter").is_empty());
    assert!(notice(&mut studio).contains("no clip"));
}

#[test]
fn on_a_low_screen_a_run_shows_its_caption() {
    let mut studio = ready();
    studio.handle(Msg::Resize(80, 24));
    press(&mut studio, "enter");
    assert_eq!(studio.model().focus, Pane::Caption);
    let mut wide = ready();
    press(&mut wide, "enter");
    assert_eq!(wide.model().focus, Pane::Library);
    wide.handle(Msg::Resize(80, 24));
    assert_eq!(wide.model().focus, Pane::Caption, "also if the screen becomes low during the run");
}

#[test]
fn again_keeps_clip_and_prompt_and_uses_the_selected_method() {
    let mut studio = after_a_run();
    press(&mut studio, "down m up enter");
    let effects = press(&mut studio, "r");
    let request = run_of(&effects).unwrap();
    assert_eq!(request.video, PathBuf::from("/demo/0.mp4"));
    assert_eq!((request.run, request.method.name.as_str()), (2, "naive"));
    let effects = press(&mut ready(), "r");
    assert!(run_of(&effects).is_some(), "without a run before, again is a run");
}

#[test]
fn back_closes_clears_and_cancels_in_this_order() {
    let mut studio = ready();
    press(&mut studio, "enter / 1 enter m");
    press(&mut studio, "esc");
    assert_eq!(studio.model().layer, None);
    assert!(press(&mut studio, "esc").is_empty());
    assert_eq!(studio.model().library.filter, "");
    assert_eq!(press(&mut studio, "esc"), [Effect::Cancel(1)]);
    assert_eq!(studio.model().runs.shown().unwrap().activity(), Activity::Cancelling);
    assert!(press(&mut studio, "esc").is_empty());
    studio.handle(done(1, StopReason::Cancelled, ""));
    press(&mut studio, "e esc");
    assert_eq!(studio.model().focus, Pane::Library);
}

#[test]
fn back_drops_a_run_that_waits() {
    let mut studio = studio();
    press(&mut studio, "enter esc");
    assert!(studio.model().waiting.is_none());
    assert!(studio.handle(ready_event()).is_empty());
}

#[test]
fn interrupt_cancels_then_quits() {
    let mut studio = ready();
    press(&mut studio, "enter");
    assert_eq!(press(&mut studio, "ctrl-c"), [Effect::Cancel(1)]);
    assert!(press(&mut studio, "ctrl-c").is_empty(), "already cancelling: pressed again, it quits");
    assert_eq!(press(&mut studio, "ctrl-c"), [Effect::Cancel(1), Effect::Quit]);
    assert_eq!(press(&mut ready(), "ctrl-c ctrl-c"), [Effect::Quit]);
}

#[test]
fn quit_suspend_and_redraw_are_effects() {
    assert_eq!(press(&mut ready(), "q"), [Effect::Quit]);
    assert_eq!(press(&mut ready(), "e ctrl-q"), [Effect::Quit]);
    assert_eq!(press(&mut ready(), "ctrl-z"), [Effect::Suspend]);
    assert_eq!(press(&mut ready(), "ctrl-l"), [Effect::Redraw]);
}

#[test]
fn panes_cycle_in_both_directions() {
    let mut studio = ready();
    for pane in [Pane::Prompt, Pane::Caption, Pane::Meters, Pane::Library] {
        press(&mut studio, "tab");
        assert_eq!(studio.model().focus, pane);
    }
    press(&mut studio, "shift-tab h");
    assert_eq!(studio.model().focus, Pane::Caption);
    press(&mut studio, "l");
    assert_eq!(studio.model().focus, Pane::Meters);
}

#[test]
fn in_the_prompt_letters_are_text() {
    let mut studio = ready();
    press(&mut studio, "e end space q ? m / alt-enter x ctrl-j y");
    assert_eq!(studio.prompt(), "Describe the video. q?m/\nx\ny");
    let effects = press(&mut studio, "enter");
    assert_eq!(run_of(&effects).unwrap().prompt, "Describe the video. q?m/\nx\ny");
}

#[test]
fn prompts_that_were_run_come_back() {
    let mut studio = after_a_run();
    studio.model().prompt.set("Another one");
    press(&mut studio, "e alt-up");
    assert_eq!(studio.prompt(), "Describe the video.");
    press(&mut studio, "alt-down");
    assert_eq!(studio.prompt(), "Another one");
}

#[test]
fn prepared_prompts_replace_the_prompt() {
    let mut studio = ready();
    press(&mut studio, "p down enter");
    let second = studio.model().presets[1].text.clone();
    assert_eq!((studio.prompt(), studio.model().focus), (second, Pane::Prompt));
    press(&mut studio, "f3 G esc");
    assert_eq!(studio.model().layer, None);
}

#[test]
fn a_method_is_chosen_from_the_list() {
    let mut studio = ready();
    press(&mut studio, "m");
    assert_eq!(studio.model().layer, Some(Overlay::Methods(2)));
    press(&mut studio, "g j enter");
    assert_eq!(studio.model().methods.current().unwrap().name, "naive");
    press(&mut studio, "f2 home q");
    assert_eq!(studio.model().methods.current().unwrap().name, "naive");
}

#[test]
fn parameters_are_adjusted_here_and_in_the_picker() {
    let mut studio = ready();
    press(&mut studio, "[");
    assert_eq!(notice(&mut studio), "lambda 0.6");
    press(&mut studio, "\\ ]");
    assert_eq!(notice(&mut studio), "length 11");
    press(&mut studio, "m up ]");
    assert_eq!(studio.model().methods.label(1), "naive length=6");
    press(&mut studio, "up [ esc");
    assert!(studio.model().methods.active_knob().is_none(), "autoregressive has no parameter");
    press(&mut studio, "\\");
    assert!(notice(&mut studio).contains("no adjustable parameter"));
    let mut studio = after_a_run();
    let effects = press(&mut studio, "]");
    assert_eq!(run_of(&effects).unwrap().run, 2, "it runs again at once");
    assert_eq!(notice(&mut studio), "lambda 0.8");
}

#[test]
fn the_caption_is_copied() {
    let mut studio = ready();
    assert!(press(&mut studio, "y").is_empty());
    assert!(notice(&mut studio).contains("no caption"));
    assert_eq!(press(&mut after_a_run(), "y"), [Effect::Copy("A red ball.".into())]);
}

#[test]
fn earlier_runs_can_be_shown() {
    let mut studio = after_a_run();
    press(&mut studio, "r");
    assert_eq!(studio.model().runs.shown, 1);
    press(&mut studio, "< <");
    assert_eq!(studio.caption(), "A red ball.");
    press(&mut studio, "> >");
    assert_eq!(studio.caption(), "");
    press(&mut studio, "shift-tab k");
    assert_eq!((studio.model().focus, studio.model().runs.shown), (Pane::Meters, 0));
    press(&mut studio, "G");
    assert_eq!(studio.model().runs.shown, 1);
}

#[test]
fn themes_cycle() {
    let mut studio = ready();
    let first = studio.model().theme;
    let n = studio.model().themes.len();
    for _ in 0..n {
        press(&mut studio, "t");
        assert!(notice(&mut studio).starts_with("theme "));
    }
    assert_eq!(studio.model().theme, first);
}

#[test]
fn help_is_searched_and_scrolled() {
    let mut studio = ready();
    press(&mut studio, "? down pagedown k");
    assert!(matches!(&studio.model().layer, Some(Overlay::Help { query, top: 0 }) if query == "k"));
    press(&mut studio, "ctrl-u down up end esc");
    assert_eq!(studio.model().layer, None);
}

#[test]
fn the_library_moves_by_lines_pages_and_ends() {
    let mut studio = ready();
    let file = |i| Found { path: format!("/v/{i:02}.mp4").into(), bytes: Some(1), modified: None };
    let found = (0..50).map(file).collect();
    studio.handle(Msg::Scanned { folder: "/v".into(), found: Ok(found), note: None });
    for (keys, at) in
        [("j", 1), ("pagedown", 16), ("G", 51), ("down", 51), ("k", 50), ("pageup", 35), ("g", 0)]
    {
        press(&mut studio, keys);
        assert_eq!(studio.model().library.cursor, at, "{keys}");
    }
}

#[test]
fn the_filter_takes_text_and_keeps_or_clears_it() {
    let mut studio = ready();
    press(&mut studio, "/ t w o");
    assert_eq!((studio.model().focus, studio.model().library.shown.as_slice()), (Pane::Library, &[1][..]));
    press(&mut studio, "backspace ctrl-u s q enter");
    assert_eq!(studio.model().library.filter, "sq");
    assert_eq!(studio.model().layer, None);
    let effects = press(&mut studio, "enter");
    assert_eq!(run_of(&effects).unwrap().video, PathBuf::from("/demo/1.mp4"));
}

#[test]
fn files_that_are_opened_or_run_are_remembered_where_a_list_is_kept() {
    let file = || Found { path: "/a/c.mp4".into(), bytes: None, modified: None };
    let mut studio = ready();
    assert!(studio.handle(Msg::Opened(Ok(file()))).is_empty(), "there is no list");
    studio.model().settings.recent = Some("/data/recent.json".into());
    let remembered = Effect::Remember("/data/recent.json".into(), "/a/c.mp4".into());
    assert_eq!(studio.handle(Msg::Opened(Ok(file()))), std::slice::from_ref(&remembered));
    assert_eq!(press(&mut studio, "enter")[0], remembered);
    let effects = press(&mut studio, "tab shift-tab home enter");
    assert!(
        !effects.iter().any(|e| matches!(e, Effect::Remember(..))),
        "an embedded clip is not a recent file"
    );
    studio.handle(Msg::Trouble("cannot write the list".into()));
    assert_eq!(notice(&mut studio), "cannot write the list");
}

#[test]
fn recent_files_are_in_the_library_from_the_start() {
    let list = PathBuf::from("/data/recent.json");
    let config = crate::tui::StudioConfig { recent: Some(list.clone()), ..crate::tui::testing::config() };
    let (mut studio, effects) = Studio::new(&config).unwrap();
    assert_eq!(effects, [Effect::Recent(list)]);
    let file = Found { path: "/a/c.mp4".into(), bytes: None, modified: None };
    studio.handle(Msg::Recent(Ok(vec![file])));
    assert_eq!(studio.model().library.entries.last().unwrap().place, "recent · /a");
    studio.handle(Msg::Recent(Err("cannot read the list".into())));
    assert_eq!(notice(&mut studio), "cannot read the list");
}

#[test]
fn a_typed_path_is_opened() {
    let mut studio = ready();
    assert_eq!(press(&mut studio, "o a / b ctrl-w c enter"), [Effect::Open("a/c".into())]);
    assert!(press(&mut studio, "esc o enter").is_empty());
    studio.handle(Msg::Opened(Err("cannot open a/c: gone".into())));
    assert!(notice(&mut studio).contains("gone"));
    studio.handle(Msg::Opened(Ok(Found { path: "/a/c.mp4".into(), bytes: None, modified: None })));
    assert_eq!(studio.model().library.selected().unwrap().title, "c.mp4");
}

#[test]
fn pastes_are_paths_or_prompts() {
    let mut studio = ready();
    for (pasted, path) in [
        ("/a/b c.mp4\n", "/a/b c.mp4"),
        ("'/a/b.mkv'", "/a/b.mkv"),
        ("file:///a/b%20c.webm", "/a/b c.webm"),
        ("/a/b\\ \\(1\\).mov", "/a/b (1).mov"),
    ] {
        assert_eq!(studio.handle(Msg::Paste(pasted.into())), [Effect::Open(path.into())], "{pasted}");
    }
    assert!(studio.handle(Msg::Paste("some words".into())).is_empty());
    assert!(notice(&mut studio).contains("prompt"));
    studio.model().focus = Pane::Prompt;
    studio.handle(Msg::Paste(" Why?\u{1b}[2J".into()));
    assert_eq!(studio.prompt(), "Describe the video. Why?");
    press(&mut studio, "f1");
    studio.handle(Msg::Paste("tau".into()));
    assert!(matches!(&studio.model().layer, Some(Overlay::Help { query, .. }) if query == "tau"));
}

#[test]
fn a_caption_is_scrolled_from_its_end() {
    let mut studio = ready();
    studio.handle(Msg::Resize(60, 16));
    press(&mut studio, "enter");
    for _ in 0..40 {
        studio.handle(step(1, &[("one line of text that goes on and on, ", Verdict::Exact)], 1));
    }
    press(&mut studio, "k k");
    assert_eq!(studio.model().caption_up, 2);
    press(&mut studio, "g");
    let most = studio.model().caption_up;
    assert!(most > 10, "{most}");
    studio.handle(Msg::Resize(120, 40));
    assert!(studio.model().caption_up < most, "a larger screen needs less scrolling");
    press(&mut studio, "G");
    assert_eq!(studio.model().caption_up, 0);
}

#[test]
fn events_of_a_run_become_its_state() {
    let mut studio = ready();
    press(&mut studio, "enter");
    studio.handle(engine(1, EventKind::Stage { stage: Stage::Encode, done: 3, total: 8 }));
    let run = studio.model().runs.shown().unwrap().clone();
    assert_eq!(run.activity(), Activity::Working { stage: Stage::Encode, done: 3, total: 8 });
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
    assert!(run_of(&press(&mut studio, "enter")).is_some());
}

#[test]
fn an_engine_that_fails_or_stops_is_reported_once() {
    let mut studio = studio();
    press(&mut studio, "enter");
    studio.handle(engine(0, EventKind::Failed(failure("no such model"))));
    studio.handle(Msg::EngineGone);
    assert!(matches!(&studio.model().engine, EngineState::Failed(f) if f.error == "no such model"));
    assert!(press(&mut studio, "enter").is_empty());
    assert!(notice(&mut studio).contains("no such model"));
    let mut studio = ready();
    press(&mut studio, "enter");
    studio.handle(Msg::EngineGone);
    assert!(studio.model().runs.shown().unwrap().log.failure().is_some());
    assert!(!studio.is_busy());
}

#[test]
fn clips_are_probed_one_after_another() {
    let mut studio = ready();
    studio.model().settings.probes = true;
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
    assert_eq!(studio.model().tick, 1);
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
