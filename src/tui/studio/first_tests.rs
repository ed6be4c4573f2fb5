//! What a new user meets first: the method picker, the theme, the welcome.

use std::path::PathBuf;

use crate::tui::{
    Effect, Msg, Studio,
    picker::Picker,
    screens::{method_editor::MethodEditor, methods::MethodPicker, presets::PresetList},
    testing::{after_a_run, done, is_shown, notice, press, ready, ready_event, run_of, screen, shown, step},
};
use specreel_record::{StopReason, Verdict};

#[test]
fn the_picker_filters_as_letters_are_typed_and_runs() {
    let mut studio = after_a_run();
    press(&mut studio, "m a u t");
    let picker = &shown::<MethodPicker>(&mut studio).picker;
    assert_eq!((picker.query(), picker.cursor), ("aut", 0));
    let effects = press(&mut studio, "enter");
    let request = run_of(&effects).unwrap();
    assert_eq!((request.run, request.method.name.as_str()), (2, "autoregressive"));
    assert!(studio.model().screens.is_empty());
    studio.handle(done(2, StopReason::Eos, "A red ball."));
    // Nothing matches: the box stays.
    assert!(press(&mut studio, "m x y z x enter").is_empty());
    assert!(is_shown::<MethodPicker>(&mut studio));
    assert!(press(&mut studio, "tab ctrl-s ctrl-r ]").is_empty());
    assert!(is_shown::<MethodPicker>(&mut studio), "there is nothing to edit");
    // Keys that are no letters act on the method under the cursor.
    press(&mut studio, "ctrl-u l v s ]");
    assert_eq!(studio.model().methods.label(2), "lvspec lambda=0.8");
    press(&mut studio, "ctrl-r");
    assert_eq!(studio.model().methods.label(2), "lvspec");
    press(&mut studio, "tab");
    assert_eq!(shown::<MethodEditor>(&mut studio).cursor, 0);
    press(&mut studio, "esc");
    assert_eq!(shown::<MethodPicker>(&mut studio).picker, Picker::at(2));
}

#[test]
fn a_picked_method_and_enter_caption_the_clip_under_the_cursor() {
    let request = |keys: &str| {
        let mut studio = after_a_run();
        press(&mut studio, "down");
        let request = run_of(&press(&mut studio, keys)).unwrap().clone();
        (request.video.display().to_string(), request.method.name)
    };
    assert_eq!(request("m a u t enter"), ("/demo/1.mp4".into(), "autoregressive".into()));
    assert_eq!(request("enter").0, "/demo/1.mp4");
    // For any focused pane; only `again` is about the shown run.
    assert_eq!(request("tab tab m n a i v enter").0, "/demo/1.mp4");
    assert_eq!(request("r").0, "/demo/0.mp4");
}

#[test]
fn a_theme_is_seen_before_it_is_chosen_and_remembered_unless_it_is_configured() {
    let config = crate::tui::testing::config();
    let file = || Some(PathBuf::from("/state/theme"));
    let (mut studio, _) = Studio::new(&crate::tui::StudioConfig { theme_file: file(), ..config }).unwrap();
    let theme = |studio: &mut Studio| studio.model().theme().name.clone();
    assert!(press(&mut studio, "t down").is_empty(), "nothing is kept yet");
    assert_eq!(theme(&mut studio), "light", "it is shown at once");
    assert!(screen(&studio, 80, 24).contains("solarized-light"), "all are listed");
    assert!(press(&mut studio, "t esc").is_empty());
    assert_eq!(theme(&mut studio), "dark");
    let kept = press(&mut studio, "t t enter");
    assert_eq!(kept, [Effect::RememberTheme("/state/theme".into(), "light".into())]);
    assert_eq!((notice(&mut studio).as_str(), theme(&mut studio).as_str()), ("theme light", "light"));
    let mut studio = ready();
    assert!(press(&mut studio, "t down enter").is_empty());
    assert_eq!(notice(&mut studio), "theme light, for this session only");
    // A box that was open is open again.
    press(&mut studio, "p down t esc");
    assert_eq!(shown::<PresetList>(&mut studio).cursor, 1);
}

#[test]
fn the_first_screen_welcomes_only_who_is_new() {
    for (columns, rows) in [(60, 16), (80, 24), (100, 30), (200, 60)] {
        let welcome = |is_first| {
            let config = crate::tui::StudioConfig { is_first, ..crate::tui::testing::config() };
            let (mut studio, _) = Studio::new(&config).unwrap();
            studio.handle(Msg::Resize(columns, rows));
            screen(&studio, columns, rows).contains("Welcome to specreel. Enter captions the selected clip")
        };
        assert_eq!([true, false].map(welcome), [true, false], "{columns}x{rows}");
    }
}

/// A studio that was never opened before, with the embedded models.
fn guided(columns: u16, rows: u16) -> Studio {
    let config = crate::tui::StudioConfig { is_first: true, embedded: true, ..crate::tui::testing::config() };
    let (mut studio, _) = Studio::new(&config).unwrap();
    studio.handle(Msg::Resize(columns, rows));
    studio.handle(ready_event());
    studio
}

#[test]
fn a_tour_leads_from_the_first_run_to_models_for_other_videos() {
    let mut studio = guided(100, 40);
    let says = |studio: &Studio, words: &str| screen(studio, 100, 40).contains(words);
    assert!(says(&studio, "tour 1 of 5") && says(&studio, "Press Enter"));
    let run = run_of(&press(&mut studio, "enter")).unwrap().run;
    assert!(says(&studio, "tour 2 of 5"));
    studio.handle(step(run, &[("A red", Verdict::Exact), (" ball", Verdict::Corrected)], 1));
    studio.handle(done(run, StopReason::Eos, "A red ball"));
    assert!(says(&studio, "tour 3 of 5"));
    for verdict in [Verdict::Exact, Verdict::Corrected] {
        let row = screen(&studio, 100, 40);
        let row =
            row.lines().find(|line| line.contains(&format!("{:11}", verdict.name()))).unwrap().to_owned();
        let why: String = verdict.why().chars().take(20).collect();
        assert!(row.contains(&why), "{row}");
    }
    for (key, next) in [("m", "tour 4 of 5"), ("c", "tour 5 of 5")] {
        assert!(!says(&studio, next));
        press(&mut studio, key);
        press(&mut studio, "esc");
        assert!(says(&studio, next), "{}", screen(&studio, 100, 40));
    }
    // The same key twice is no step of its own.
    press(&mut studio, "c esc");
    assert!(says(&studio, "tour 5 of 5"));
}

#[test]
fn a_tour_ends_by_itself_with_escape_and_where_it_has_nothing_to_show() {
    let shows = |studio: &Studio| screen(studio, 100, 40).contains("tour ");
    let mut studio = guided(100, 40);
    press(&mut studio, "esc");
    assert!(!shows(&studio));
    let mut studio = guided(100, 40);
    let run = run_of(&press(&mut studio, "enter")).unwrap().run;
    studio.handle(done(run, StopReason::Cancelled, ""));
    assert!(!shows(&studio));
    // On a small screen the caption comes first, and the first line says what to press.
    let studio = guided(60, 16);
    let small = screen(&studio, 60, 16);
    assert!(!small.contains("tour ") && small.contains("Welcome to specreel. Enter captions"));
    // Other models know other clips.
    let config = crate::tui::StudioConfig { is_first: true, ..crate::tui::testing::config() };
    let (mut studio, _) = Studio::new(&config).unwrap();
    studio.handle(Msg::Resize(100, 40));
    assert!(!shows(&studio));
}
