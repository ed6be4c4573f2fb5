//! The effect of every action, without a terminal.

use std::path::PathBuf;

use super::*;
use crate::tui::{
    Studio, VideoFile,
    model::run::Activity,
    pane::Pane,
    screens::help::HelpPage,
    testing::{after_a_run, done, notice, press, ready, ready_event, run_of, screen, shown, step, studio},
};
use specreel_record::{StopReason, Verdict};

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
    press(&mut studio, "down m up ] esc");
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
    assert!(studio.model().screens.is_empty());
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
    press(&mut studio, "enter");
    assert!(screen(&studio, 100, 30).contains(", then your run"));
    press(&mut studio, "esc");
    assert!(studio.model().queue.next.is_none());
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
    for pane in [Pane::Prompt, Pane::Caption, Pane::Steps, Pane::Meters, Pane::Library] {
        press(&mut studio, "tab");
        assert_eq!(studio.model().focus, pane);
    }
    press(&mut studio, "shift-tab h");
    assert_eq!(studio.model().focus, Pane::Steps);
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
fn prepared_prompts_replace_the_prompt() {
    let mut studio = ready();
    press(&mut studio, "p down enter");
    let second = studio.model().config.presets[1].text.clone();
    assert_eq!((studio.prompt(), studio.model().focus), (second, Pane::Prompt));
    press(&mut studio, "f3 G esc");
    assert!(studio.model().screens.is_empty());
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
}

#[test]
fn the_caption_is_copied() {
    let mut studio = ready();
    assert!(press(&mut studio, "y").is_empty());
    assert!(notice(&mut studio).contains("no caption"));
    assert_eq!(press(&mut after_a_run(), "y"), [Effect::Copy("A red ball. rolls.".into())]);
}

#[test]
fn earlier_runs_can_be_shown() {
    let mut studio = after_a_run();
    press(&mut studio, "r");
    assert_eq!(studio.model().runs.shown, 1);
    press(&mut studio, "< <");
    assert_eq!(studio.caption(), "A red ball. rolls.");
    press(&mut studio, "> >");
    assert_eq!(studio.caption(), "");
    press(&mut studio, "shift-tab k");
    assert_eq!((studio.model().focus, studio.model().runs.shown), (Pane::Meters, 0));
    press(&mut studio, "G");
    assert_eq!(studio.model().runs.shown, 1);
}

#[test]
fn the_library_moves_by_lines_pages_and_ends() {
    let mut studio = ready();
    let file = |i| VideoFile { path: format!("/v/{i:02}.mp4").into(), bytes: Some(1), modified: None };
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
    assert!(studio.model().screens.is_empty());
    let effects = press(&mut studio, "enter");
    assert_eq!(run_of(&effects).unwrap().video, PathBuf::from("/demo/1.mp4"));
}

#[test]
fn files_that_are_opened_or_run_are_remembered_where_a_list_is_kept() {
    let file = || VideoFile { path: "/a/c.mp4".into(), bytes: None, modified: None };
    let mut studio = ready();
    assert!(studio.handle(Msg::Opened(Ok(file()))).is_empty(), "there is no list");
    studio.model().config.recent = Some("/data/recent.json".into());
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
    assert_eq!(effects[0], Effect::Recent(list));
    let file = VideoFile { path: "/a/c.mp4".into(), bytes: None, modified: None };
    studio.handle(Msg::Recent(Ok(vec![file])));
    assert_eq!(studio.model().library.entries.last().unwrap().dir, "recent · /a");
    studio.handle(Msg::Recent(Err("cannot read the list".into())));
    assert_eq!(notice(&mut studio), "cannot read the list");
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
    assert_eq!(shown::<HelpPage>(&mut studio).picker.query(), "tau");
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
    assert_eq!(studio.model().caption.up, 2);
    press(&mut studio, "g");
    let most = studio.model().caption.up;
    assert!(most > 10, "{most}");
    studio.handle(Msg::Resize(120, 40));
    assert!(studio.model().caption.up < most, "a larger screen needs less scrolling");
    press(&mut studio, "G");
    assert_eq!(studio.model().caption.up, 0);
}

#[test]
fn the_player_opens_the_clip_under_the_cursor() {
    let mut studio = ready();
    let play = |path: &str| [Effect::Play(path.into())];
    assert_eq!(press(&mut studio, "O"), play("/demo/0.mp4"));
    assert_eq!(notice(&mut studio), "opening Red ball");
    assert_eq!(press(&mut studio, "j tab tab O"), play("/demo/1.mp4"), "wherever the focus is");
    // In a box, the box's.
    press(&mut studio, "shift-tab shift-tab space enter");
    assert_eq!(press(&mut studio, "O"), play("/demo/1.mp4"));
    press(&mut studio, "esc / z z z enter");
    assert_eq!(press(&mut studio, "O"), []);
    assert_eq!(notice(&mut studio), "no clip selected");
}
