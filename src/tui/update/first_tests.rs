//! What a new user meets first: the method picker, the theme, the welcome.

use std::path::PathBuf;

use crate::{
    record::StopReason,
    tui::{
        Effect, Msg, Studio,
        model::Overlay,
        testing::{after_a_run, done, notice, press, ready, run_of},
    },
};

#[test]
fn the_picker_filters_as_letters_are_typed_and_runs() {
    let mut studio = after_a_run();
    press(&mut studio, "m a u t");
    assert!(matches!(&studio.model().overlay, Some(Overlay::Methods { query, cursor: 0 }) if query == "aut"));
    // The shown clip and prompt are run again, whatever is selected in the library.
    let effects = press(&mut studio, "enter");
    let request = run_of(&effects).unwrap();
    assert_eq!((request.run, request.method.name.as_str()), (2, "autoregressive"));
    assert_eq!(studio.model().overlay, None);
    studio.handle(done(2, StopReason::Eos, "A red ball."));
    // Nothing matches: the box stays.
    assert!(press(&mut studio, "m x y z x enter").is_empty());
    assert!(matches!(studio.model().overlay, Some(Overlay::Methods { .. })));
    assert!(press(&mut studio, "tab ctrl-s ctrl-r ]").is_empty());
    assert!(matches!(studio.model().overlay, Some(Overlay::Methods { .. })), "there is nothing to edit");
    // Keys that are no letters act on the method under the cursor.
    press(&mut studio, "ctrl-u l v s ]");
    assert_eq!(studio.model().methods.label(2), "lvspec lambda=0.8");
    press(&mut studio, "ctrl-r");
    assert_eq!(studio.model().methods.label(2), "lvspec");
    press(&mut studio, "tab");
    assert_eq!(studio.model().overlay, Some(Overlay::Edit(0)));
    press(&mut studio, "esc");
    assert_eq!(studio.model().overlay, Some(Overlay::Methods { query: String::new(), cursor: 2 }));
}

#[test]
fn a_theme_is_remembered_unless_it_is_configured() {
    let config = crate::tui::testing::config();
    let file = || Some(PathBuf::from("/state/theme"));
    let (mut studio, _) = Studio::new(&crate::tui::StudioConfig { theme_file: file(), ..config }).unwrap();
    assert_eq!(press(&mut studio, "t"), [Effect::RememberTheme("/state/theme".into(), "light".into())]);
    assert_eq!(notice(&mut studio), "theme light");
    let mut studio = ready();
    assert!(press(&mut studio, "t").is_empty());
    assert_eq!(notice(&mut studio), "theme light, for this session only");
}

#[test]
fn the_first_screen_welcomes_only_who_is_new() {
    let welcome = |is_first| {
        let config = crate::tui::StudioConfig { is_first, ..crate::tui::testing::config() };
        let (mut studio, _) = Studio::new(&config).unwrap();
        studio.handle(Msg::Resize(100, 30));
        let shown = crate::tui::picture::describe(&studio.picture(100, 30));
        shown.contains("Welcome to specreel. Enter captions the selected clip")
    };
    assert_eq!([true, false].map(welcome), [true, false]);
}
