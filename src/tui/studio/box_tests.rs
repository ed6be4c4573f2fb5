//! Boxes over the panes: going back, input lines, paths, values of a method, and the keys in the status line.

use super::*;
use crate::tui::{
    ClipFacts, Completion, Key, Studio, StudioConfig, VideoFile, Wanted,
    model::run::Activity,
    pane::Pane,
    screens::{
        compare_picker::ComparePicker, help::HelpPage, method_editor::MethodEditor, methods::MethodPicker,
        open::OpenLine, presets::PresetList, value::ValueLine,
    },
    testing::{
        after_a_run, config, done, is_shown, notice, press, ready, ready_event, screen, shown, step,
        with_pictures,
    },
};
use specreel_record::{EventKind, LoadedParts, Ready, StopReason, Verdict};

fn last_line(studio: &Studio, columns: u16, rows: u16) -> String {
    screen(studio, columns, rows).trim_end().lines().last().unwrap_or_default().to_owned()
}

/// A studio whose first run is being written.
fn writing() -> Studio {
    let mut studio = ready();
    press(&mut studio, "enter");
    studio.handle(step(1, &[("A red", Verdict::Exact)], 3));
    studio
}

#[test]
fn esc_says_what_it_does_and_does_it() {
    let mut studio = writing();
    press(&mut studio, "tab tab");
    press(&mut studio, "e");
    assert!(last_line(&studio, 100, 30).contains("Esc back"), "{}", last_line(&studio, 100, 30));
    assert!(press(&mut studio, "esc").is_empty(), "it leaves the prompt");
    assert_eq!(studio.model().focus, Pane::Caption, "back to the previous pane");
    assert!(last_line(&studio, 100, 30).contains("Esc cancel"));
    press(&mut studio, "m");
    assert!(last_line(&studio, 100, 30).contains("Esc back"));
    assert!(press(&mut studio, "esc").is_empty());
    assert_eq!(press(&mut studio, "esc"), [Effect::Cancel(1)]);
    assert_eq!(studio.model().runs.shown().unwrap().activity(), Activity::Cancelling);
}

#[test]
fn an_active_run_is_not_lost_by_one_key() {
    let mut studio = writing();
    assert!(press(&mut studio, "q").is_empty());
    assert!(
        notice(&mut studio).contains("press q again to cancel the run and quit"),
        "{}",
        notice(&mut studio)
    );
    assert!(press(&mut studio, "down q").is_empty(), "another key between them takes it back");
    assert_eq!(press(&mut studio, "q"), [Effect::Cancel(1), Effect::Quit]);
    // The key may be meant for a run that has just ended.
    let mut studio = writing();
    studio.handle(done(1, StopReason::Eos, "A red"));
    assert!(press(&mut studio, "ctrl-c").is_empty());
    assert!(notice(&mut studio).contains("again to quit"));
    assert_eq!(press(&mut studio, "ctrl-c"), [Effect::Quit]);
}

#[test]
fn the_status_line_always_shows_how_to_go_back() {
    for (columns, rows) in [(60, 16), (80, 24), (100, 30)] {
        let boxes = "m | m tab | m tab down e | m ctrl-s | c | c enter | p | % | % enter | % down enter | o | v | S | ? | \
                 / | L | e ctrl-r";
        for keys in boxes.split(" | ") {
            let mut studio = with_pictures(columns, rows);
            press(&mut studio, keys);
            let line = last_line(&studio, columns, rows);
            let way = if keys == "c enter" { "Esc cancel" } else { "Esc back" };
            assert!(line.contains(way), "{keys} at {columns}x{rows}: {line}");
        }
        let line = last_line(&with_pictures(columns, rows), columns, rows);
        assert!(line.contains("? help") && line.contains("q quit") && line.contains("Enter run"), "{line}");
    }
}

#[test]
fn keys_of_the_panes_do_nothing_in_a_box() {
    let mut studio = ready();
    press(&mut studio, "enter");
    studio.handle(done(1, StopReason::Eos, "A ball."));
    press(&mut studio, "p");
    assert!(press(&mut studio, "w b r L").is_empty());
    assert!(is_shown::<PresetList>(&mut studio) && !studio.model().caption.boundaries);
}

#[test]
fn methods_to_compare_are_filtered_as_letters_are_typed() {
    let mut studio = ready();
    press(&mut studio, "c n a i");
    let box_of = |studio: &mut Studio| {
        let picker = &shown::<ComparePicker>(studio).picker;
        (picker.query().to_owned(), picker.cursor)
    };
    assert_eq!(box_of(&mut studio), ("nai".into(), 0));
    let shown = screen(&studio, 80, 24);
    assert!(shown.contains("[ ] naive") && !shown.contains("lvspec  "), "{shown}");
    assert_eq!(studio.model().methods.picked, [true, false, true]);
    press(&mut studio, "space");
    assert_eq!(
        studio.model().methods.picked,
        [true, true, true],
        "what is under the cursor, not what is first of all"
    );
    // The key that starts a search elsewhere starts the filter again.
    press(&mut studio, "/ l v s");
    assert_eq!(box_of(&mut studio), ("lvs".into(), 0));
    press(&mut studio, "space z z z space");
    assert_eq!(studio.model().methods.picked, [true, true, false]);
    assert!(screen(&studio, 80, 24).contains("no match"));
}

#[test]
fn help_is_searched_by_typing_and_a_slash_starts_over() {
    let mut studio = ready();
    press(&mut studio, "? /");
    let query = |studio: &mut Studio| shown::<HelpPage>(studio).picker.query().to_owned();
    assert_eq!(query(&mut studio), "");
    press(&mut studio, "t a u / t h e");
    assert_eq!(query(&mut studio), "the");
    press(&mut studio, "ctrl-u down pagedown k");
    assert_eq!((query(&mut studio).as_str(), shown::<HelpPage>(&mut studio).picker.cursor), ("k", 0));
}

#[test]
fn help_begins_with_the_keys_that_work_here() {
    let mut studio = after_a_run();
    for (keys, first) in [
        ("?", "Library"),
        ("esc tab f1", "Prompt"),
        ("esc tab ?", "Caption and meters"),
        ("esc tab ?", "Steps"),
        ("esc S ?", "Saved runs"),
        ("f1", "Saved runs"),
    ] {
        press(&mut studio, keys);
        let page = screen(&studio, 100, 30);
        let line = page.lines().nth(4).unwrap_or_default().trim_matches(['│', '┃', ' ']);
        assert_eq!(line.trim_end_matches(['│', '┃', ' ']), first, "{keys}: {page}");
    }
}

#[test]
fn methods_that_lack_a_model_are_grey_and_say_what_would_supply_it() {
    let mut studio = ready();
    let parts = |drafter| Some(LoadedParts { drafter, ..LoadedParts::default() });
    let load = |studio: &mut Studio, given| {
        let Msg::Engine(mut event) = ready_event() else { unreachable!() };
        if let EventKind::Ready(Ready { parts, .. }) = &mut event.kind {
            *parts = given;
        }
        studio.handle(Msg::Engine(event));
    };
    load(&mut studio, parts(true));
    press(&mut studio, "m");
    assert!(!screen(&studio, 100, 30).contains("not now"));
    press(&mut studio, "esc");
    load(&mut studio, parts(false));
    assert_eq!(press(&mut studio, "m l v s enter"), [], "it would only fail");
    let said = notice(&mut studio);
    let why = "method `lvspec` needs a draft model, but none is loaded: add one with --drafter";
    assert!(said.starts_with(why), "{said}");
    assert!(is_shown::<MethodPicker>(&mut studio), "another one can be chosen");
    assert!(screen(&studio, 100, 30).contains("not now: it needs a draft model"));
    // Nor are they compared.
    press(&mut studio, "esc c");
    assert_eq!(studio.model().methods.picked, [true, false, false]);
    press(&mut studio, "home down space");
    assert!(notice(&mut studio).contains("none is loaded") && !studio.model().methods.picked[1]);
    // What is loaded runs.
    assert!(matches!(press(&mut studio, "esc m a u t enter")[..], [Effect::Run(_)]));
}

#[test]
fn every_hint_of_the_status_line_is_true_where_it_is_shown() {
    let mut studio = after_a_run();
    // The shown run is played again, which adds keys.
    press(&mut studio, ",");
    for pane in Pane::ALL {
        studio.model().focus = pane;
        let line = last_line(&studio, 170, 50);
        let context = studio.model().key_context();
        for (key, word) in [("Space", "pause"), ("Space", "play"), ("Space", "mark"), ("Enter", "run")] {
            let action = studio.model().keymap.action(context, Key::parse(&key.to_lowercase()).unwrap());
            if line.contains(&format!("{key} {word}")) {
                let name = action.unwrap().name();
                assert!(name == word || name == "pause", "{pane:?}: {line}");
            }
        }
        assert!(pane != Pane::Prompt || line.contains("Tab panes") && !line.contains("Space"), "{line}");
    }
}

#[test]
fn a_path_completes_and_stays_until_it_is_opened() {
    let mut studio = ready();
    press(&mut studio, "o c l");
    assert_eq!(press(&mut studio, "tab"), [Effect::Complete("cl".into(), Wanted::Videos)]);
    let found = || vec!["clip.mp4".to_owned(), "clips/".to_owned()];
    let done = Completion { typed: "cl".into(), line: "clip".into(), found: found() };
    studio.handle(Msg::Completed(Ok(done.clone())));
    let line = |studio: &mut Studio| {
        let path = &shown::<OpenLine>(studio).path;
        (path.line.text.clone(), path.found.len())
    };
    assert_eq!(line(&mut studio), ("clip".into(), 2));
    assert!(screen(&studio, 80, 24).contains("clips/"));
    studio.handle(Msg::Completed(Ok(done)));
    assert_eq!(line(&mut studio).0, "clip", "an outdated answer is ignored");
    studio.handle(Msg::Completed(Err("no directory or video starts with clip".into())));
    assert!(notice(&mut studio).contains("starts with clip"));
    press(&mut studio, "x");
    assert_eq!(line(&mut studio), ("clipx".into(), 0));
    // An invalid path stays, to be corrected.
    assert_eq!(press(&mut studio, "enter"), [Effect::Open("clipx".into())]);
    studio.handle(Msg::Opened(Err("cannot open clipx: No such file or directory".into())));
    assert_eq!(line(&mut studio).0, "clipx");
    press(&mut studio, "backspace . m p 4");
    assert_eq!(press(&mut studio, "enter"), [Effect::Open("clip.mp4".into())]);
    let file = VideoFile { path: "/v/clip.mp4".into(), bytes: Some(7), modified: None };
    studio.handle(Msg::Opened(Ok(file)));
    assert!(studio.model().screens.is_empty());
}

#[test]
fn a_directory_that_is_opened_again_says_so() {
    let mut studio = ready();
    let file = || VideoFile { path: "/v/clip.mp4".into(), bytes: Some(7), modified: None };
    for (n, words) in [(1, "1 new"), (2, "already in the library")] {
        press(&mut studio, "o / v enter");
        studio.handle(Msg::Scanned { folder: "/v".into(), found: Ok(vec![file()]), note: None });
        assert!(notice(&mut studio).contains(words), "{n}: {}", notice(&mut studio));
        assert!(studio.model().screens.is_empty());
    }
}

#[test]
fn a_file_that_is_not_a_video_is_shown_as_such_and_not_remembered() {
    let config = StudioConfig {
        probe: Some(std::sync::Arc::new(|_| Ok(ClipFacts::default()))),
        frames: Some(std::sync::Arc::new(|_, _| Ok(()))),
        recent: Some("/data/recent.json".into()),
        ..config()
    };
    let (mut studio, _) = Studio::new(&config).unwrap();
    studio.handle(ready_event());
    studio.handle(Msg::Resize(120, 40));
    let mut open = |path: &str, facts| {
        let file = VideoFile { path: path.into(), bytes: Some(7), modified: None };
        assert_eq!(studio.handle(Msg::Opened(Ok(file))).first(), Some(&Effect::Probe(path.into())));
        studio.handle(Msg::Probed { path: path.into(), facts })
    };
    let effects = open("/v/notes.mp4", Err("/v/notes.mp4: not a video".into()));
    assert!(!effects.iter().any(|e| matches!(e, Effect::Remember(..))), "{effects:?}");
    let effects = open("/v/clip.mp4", Ok(ClipFacts::default()));
    assert!(effects.contains(&Effect::Remember("/data/recent.json".into(), "/v/clip.mp4".into())));
    press(&mut studio, "/ n o t e s enter");
    let shown = screen(&studio, 120, 40);
    assert!(shown.contains("no video") && shown.contains("/v/notes.mp4: not a video"), "{shown}");
    let effects = press(&mut studio, "enter");
    assert!(!effects.iter().any(|e| matches!(e, Effect::Remember(..))));
}

#[test]
fn a_value_is_typed_and_an_invalid_one_stays() {
    let mut studio = ready();
    press(&mut studio, "m tab");
    let rows = crate::tui::model::edit::rows(studio.model().methods.current().unwrap());
    let at = rows
        .iter()
        .position(|row| matches!(row, crate::tui::model::edit::Row::Key(_, key) if key.name == "lambda"));
    press(&mut studio, &vec!["down"; at.unwrap()].join(" "));
    press(&mut studio, "e 7 enter");
    assert!(notice(&mut studio).contains("must be"), "{}", notice(&mut studio));
    assert_eq!(shown::<ValueLine>(&mut studio).line.text, "7", "7 took the place of 0.7");
    press(&mut studio, "ctrl-u 0 . 5 5 enter");
    assert_eq!(shown::<MethodEditor>(&mut studio).cursor, at.unwrap());
    assert_eq!(studio.model().methods.label(2), "lvspec lambda=0.55");
    // And back to the preset.
    press(&mut studio, "u");
    assert_eq!(studio.model().methods.label(2), "lvspec");
    press(&mut studio, "u");
    assert!(notice(&mut studio).contains("unchanged"));
    // A choice has no value to type.
    press(&mut studio, "home e");
    assert_eq!(shown::<MethodEditor>(&mut studio).cursor, 0);
}

#[test]
fn the_caret_moves() {
    let mut studio = ready();
    press(&mut studio, "o / v / c l i p home delete ctrl-right x");
    assert_eq!(shown::<OpenLine>(&mut studio).path.line.text, "vx/clip");
    assert!(screen(&studio, 80, 24).contains("vx▏/clip"));
    press(&mut studio, "esc / 1 left");
    assert_eq!(studio.model().library.filter, "1", "moving the caret does not change the filter");
    press(&mut studio, "0");
    assert_eq!(studio.model().library.filter, "01");
}

#[test]
fn a_long_notice_is_seen_whole() {
    let mut studio = ready();
    let words = format!("{}: no such directory, and that is the end", "a/".repeat(50));
    studio.handle(Msg::Unrecorded(words));
    let shown = screen(&studio, 80, 24);
    assert!(shown.contains("is the end") && last_line(&studio, 80, 24).contains("? help"), "{shown}");
}
