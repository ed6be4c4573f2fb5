//! What a new user meets first: the method picker, the theme, the welcome.

use std::path::PathBuf;

use crate::tui::{
    Effect, Msg, Studio,
    picker::Picker,
    screens::{method_editor::MethodEditor, methods::MethodPicker, presets::PresetList},
    testing::{after_a_run, done, is_shown, notice, press, ready, run_of, screen, shown},
};
use specreel_record::StopReason;

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
