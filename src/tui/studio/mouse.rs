//! The mouse: a click focuses a pane, selects a row or performs a key's hint, a double click runs a row, and the wheel
//! scrolls the pane under it.

use ratatui::layout::Position;

use super::{actions, update::begin_input};
use crate::look::Action;
use crate::tui::mouse::{Mouse, MouseKind};
use crate::tui::{model::Model, pane::Pane, picker::Move, update::panes, view, widgets::Hit};

/// Lines of text per notch of the wheel.
const NOTCH: usize = 3;

pub(super) fn on_mouse(model: &mut Model, mouse: Mouse) {
    // What the user sees, with the notice that goes now.
    let hit = view::hit(model, Position::new(mouse.column, mouse.row));
    let is_beside_box = model.screens.covers() && !hit.is_box && hit.pane.is_some();
    let action = match mouse.kind {
        MouseKind::Click if is_beside_box => Some(Action::Back),
        MouseKind::Click => hit.key,
        MouseKind::WheelUp | MouseKind::WheelDown => None,
    };
    begin_input(model, action);
    let clicked = model.input.clicked.take();
    match (action, mouse.kind) {
        (Some(action), _) => actions::act(model, action),
        (None, MouseKind::WheelUp) => wheel(model, Action::Up, hit),
        (None, MouseKind::WheelDown) => wheel(model, Action::Down, hit),
        // The first click may have moved the list: the second is meant for the same row.
        (None, MouseKind::Click) if clicked.is_some_and(|earlier| mouse.doubles(&earlier)) => run_row(model),
        (None, MouseKind::Click) => click(model, mouse, hit),
    }
}

fn click(model: &mut Model, mouse: Mouse, hit: Hit) {
    match (hit.pane, hit.row) {
        (None, None) => {}
        (None, Some(row)) => {
            actions::go(model, Move::To(row));
            match model.screens.top().and_then(|top| top.on_click()) {
                Some(action) => actions::act(model, action),
                None => model.input.clicked = Some(mouse),
            }
        }
        (Some(pane), row) => {
            panes::focus(model, pane);
            if let Some(row) = row {
                panes::go(model, Move::To(row));
                model.input.clicked = Some(mouse);
            }
        }
    }
}

/// What Enter does about the selected row; a step is inspected.
fn run_row(model: &mut Model) {
    let action = match model.focus {
        _ if !model.screens.is_empty() => Action::Choose,
        Pane::Library => Action::Run,
        Pane::Steps if model.caption.inspector.is_none() => Action::Inspect,
        _ => return,
    };
    actions::act(model, action);
}

fn wheel(model: &mut Model, action: Action, hit: Hit) {
    if model.screens.covers() {
        // A box is scrolled wherever the pointer is.
        return actions::act(model, action);
    }
    let Some(pane) = hit.pane else { return };
    let focus = std::mem::replace(&mut model.focus, pane);
    let screens = std::mem::take(&mut model.screens);
    let notches = if pane == Pane::Caption { NOTCH } else { 1 };
    (0..notches).for_each(|_| actions::act(model, action));
    (model.focus, model.screens) = (focus, screens);
}

#[cfg(test)]
mod tests {
    use std::{
        path::{Path, PathBuf},
        time::Duration,
    };

    use super::*;
    use crate::tui::{
        Effect, Msg, Studio, VideoFile,
        screens::methods::MethodPicker,
        testing::{self, after_a_run, notice, press, run_of, screen, shown},
        text,
    };

    fn mouse(studio: &mut Studio, column: u16, row: u16, kind: MouseKind, ms: u64) -> Vec<Effect> {
        studio.handle(Msg::Mouse(Mouse { column, row, kind, at: Duration::from_millis(ms) }))
    }

    fn click(studio: &mut Studio, column: u16, row: u16) -> Vec<Effect> {
        mouse(studio, column, row, MouseKind::Click, 0)
    }

    /// Where these words are on the screen, the last of them.
    fn place(studio: &mut Studio, words: &str) -> (u16, u16) {
        let (columns, rows) = studio.model().size;
        let screen = screen(studio, columns, rows);
        let lines: Vec<&str> = screen.lines().collect();
        let found = (0..lines.len()).rev().find_map(|row| Some((row, lines[row].rsplit_once(words)?.0)));
        let (row, before) = found.unwrap_or_else(|| panic!("no {words:?} in\n{screen}"));
        (text::width(before) as u16, row as u16)
    }

    fn click_on(studio: &mut Studio, words: &str) -> Vec<Effect> {
        let (column, row) = place(studio, words);
        click(studio, column, row)
    }

    fn sized(columns: u16, rows: u16) -> Studio {
        let mut studio = testing::ready();
        studio.handle(Msg::Resize(columns, rows));
        studio
    }

    #[test]
    fn a_click_focuses_a_pane_and_selects_a_clip() {
        let mut studio = sized(120, 40);
        click(&mut studio, 80, 5);
        assert_eq!(studio.model().focus, Pane::Caption);
        click(&mut studio, 5, 3);
        assert_eq!((studio.model().focus, studio.model().library.cursor), (Pane::Library, 1));
        // Below the last clip, and on borders, nothing is selected.
        for row in [1, 10, 0] {
            click(&mut studio, 5, row);
            assert_eq!(studio.model().library.cursor, 1, "row {row}");
        }
    }

    #[test]
    fn a_double_click_runs_a_clip_if_it_is_quick_and_in_one_place() {
        let mut studio = sized(120, 40);
        for (column, row, ms) in [(5, 3, 0), (5, 2, 100), (5, 3, 200), (5, 3, 700)] {
            assert!(mouse(&mut studio, column, row, MouseKind::Click, ms).is_empty(), "{ms}");
        }
        let effects = mouse(&mut studio, 5, 3, MouseKind::Click, 1000);
        assert_eq!(run_of(&effects).unwrap().video, Path::new("/demo/1.mp4"));
        assert!(mouse(&mut studio, 5, 3, MouseKind::Click, 1001).is_empty(), "a third one is another first");
    }

    #[test]
    fn a_double_click_means_the_row_that_the_first_one_selected() {
        let mut studio = sized(92, 24);
        let path = |i: usize| PathBuf::from(format!("/v/{i:02}.mp4"));
        let found = (0..40).map(|i| VideoFile { path: path(i), bytes: None, modified: None });
        studio.handle(Msg::Scanned { folder: "/v".into(), found: Ok(found.collect()), note: None });
        let here = place(&mut studio, "11.mp4");
        click(&mut studio, here.0, here.1);
        assert_ne!(place(&mut studio, "11.mp4"), here, "the list has moved");
        let effects = click(&mut studio, here.0, here.1);
        assert_eq!(run_of(&effects).unwrap().video, path(11));
    }

    #[test]
    fn rows_of_boxes_are_selected_and_run() {
        let mut studio = testing::ready();
        press(&mut studio, "m");
        click_on(&mut studio, "naive");
        let picked = shown::<MethodPicker>(&mut studio).picker.cursor;
        assert_eq!(studio.model().methods.presets[picked].name, "naive");
        let effects = click_on(&mut studio, "naive");
        assert_eq!(run_of(&effects).unwrap().method.name, "naive");
        // A click picks the methods to compare.
        press(&mut studio, "c");
        let before = studio.model().methods.picked.clone();
        for is_changed in [true, false, true] {
            click_on(&mut studio, "] naive");
            assert_eq!(studio.model().methods.picked != before, is_changed);
        }
    }

    #[test]
    fn a_click_on_a_hint_is_its_key_and_beside_a_box_closes_it() {
        let mut studio = testing::ready();
        click_on(&mut studio, "m method");
        let opened = shown::<MethodPicker>(&mut studio).picker.clone();
        click_on(&mut studio, "filter");
        assert_eq!(shown::<MethodPicker>(&mut studio).picker, opened, "not everything in a box is a row");
        press(&mut studio, "esc p");
        click(&mut studio, 1, 2);
        assert!(studio.model().screens.is_empty());
        assert_eq!(studio.model().library.cursor, 0, "the screen below the box is not clicked");
        // A pair of keys: each is its own.
        press(&mut studio, "m");
        let knob = |studio: &mut Studio| studio.model().methods.active_knob().unwrap().value;
        for (words, value) in [("] adjust", 0.8), ("[] adjust", 0.7), ("adjust", 0.8)] {
            click_on(&mut studio, words);
            assert!((knob(&mut studio) - value).abs() < 1e-9, "{words}: {}", knob(&mut studio));
        }
        press(&mut studio, "esc");
        click_on(&mut studio, "[ lambda");
        assert!((knob(&mut studio) - 0.7).abs() < 1e-9, "the first line also has keys");
        // What must be pressed twice must be clicked twice.
        press(&mut studio, "enter");
        let quit = |studio: &mut Studio| click_on(studio, "q quit");
        press(&mut studio, "q");
        assert!(notice(&mut studio).contains("again"));
        let last = studio.model().size.1 - 1;
        click(&mut studio, 1, last);
        assert_eq!(studio.model().input.asked, None, "another click withdraws it");
        studio.handle(testing::done(1, specreel_record::StopReason::Eos, "A ball."));
        assert_eq!(quit(&mut studio), [Effect::Quit]);
    }

    #[test]
    fn steps_and_runs_are_rows_too() {
        let mut studio = after_a_run();
        press(&mut studio, "d");
        click_on(&mut studio, " 1  ");
        assert_eq!(studio.model().shown_step(), Some(0));
        click_on(&mut studio, " 1  ");
        assert!(studio.model().caption.inspector.is_some(), "a step is inspected");
        click(&mut studio, 90, 20);
        assert!(studio.model().caption.inspector.is_some(), "the inspector is where the meters were");
        let mut studio = after_a_run();
        press(&mut studio, "r");
        studio.handle(testing::done(2, specreel_record::StopReason::Eos, "A ball."));
        studio.handle(Msg::Resize(120, 40));
        assert_eq!(studio.model().runs.shown, 1);
        let (column, row) = place(&mut studio, "runs on this clip");
        click(&mut studio, column, row + 2);
        assert_eq!((studio.model().runs.shown, studio.model().focus), (0, Pane::Meters));
    }

    #[test]
    fn the_wheel_moves_what_is_under_it_and_leaves_the_focus() {
        let mut studio = sized(120, 40);
        let wheel = |studio: &mut Studio, kind| mouse(studio, 5, 3, kind, 0);
        click(&mut studio, 80, 5);
        wheel(&mut studio, MouseKind::WheelDown);
        assert_eq!((studio.model().focus, studio.model().library.cursor), (Pane::Caption, 1));
        wheel(&mut studio, MouseKind::WheelUp);
        assert_eq!(studio.model().library.cursor, 0);
        // Over an open list it moves the list.
        press(&mut studio, "m");
        let before = shown::<MethodPicker>(&mut studio).picker.clone();
        wheel(&mut studio, MouseKind::WheelUp);
        assert_ne!(shown::<MethodPicker>(&mut studio).picker, before);
        assert_eq!(studio.model().library.cursor, 0);
    }

    #[test]
    fn outside_of_everything_nothing_happens() {
        let mut studio = sized(120, 40);
        for kind in [MouseKind::Click, MouseKind::WheelDown] {
            assert!(mouse(&mut studio, 500, 500, kind, 0).is_empty());
        }
        studio.handle(Msg::Resize(10, 3));
        assert!(click(&mut studio, 1, 1).is_empty());
    }
}
