//! The mouse: the wheel scrolls the pane under it, a click focuses a pane and selects a clip.

use ratatui::layout::Position;

use super::*;
use crate::tui::{Mouse, mouse::MouseKind};

/// Lines of text per notch of the wheel.
const NOTCH: usize = 3;

pub(super) fn on_mouse(model: &mut Model, mouse: Mouse) -> Vec<Effect> {
    let wheel = match mouse.kind {
        MouseKind::Click => None,
        MouseKind::WheelUp => Some(Action::Up),
        MouseKind::WheelDown => Some(Action::Down),
    };
    if !matches!(model.overlay, None | Some(Overlay::Filter)) {
        // A box is scrolled wherever the pointer is, and a click in it selects nothing.
        return wheel.map(|action| actions::act(model, action)).unwrap_or_default();
    }
    let Some((pane, area)) = pane_at(model, mouse) else { return Vec::new() };
    match wheel {
        Some(action) => {
            let focus = std::mem::replace(&mut model.focus, pane);
            let overlay = model.overlay.take();
            let notches = if pane == Pane::Caption { NOTCH } else { 1 };
            let effects = (0..notches).flat_map(|_| actions::act(model, action)).collect();
            (model.focus, model.overlay) = (focus, overlay);
            effects
        }
        None => {
            actions::focus(model, pane);
            if pane == Pane::Library
                && let Some(at) = view::library::entry_at(model, area, mouse.row)
            {
                model.library.cursor = at;
            }
            Vec::new()
        }
    }
}

fn pane_at(model: &Model, mouse: Mouse) -> Option<(Pane, ratatui::layout::Rect)> {
    let areas = view::areas(model.size, model.focus, model.inspector.is_some())?;
    let panes = [
        (Pane::Library, areas.library),
        (Pane::Prompt, areas.prompt),
        (Pane::Caption, areas.caption),
        (Pane::Steps, areas.steps),
        (Pane::Meters, areas.meters),
    ];
    let here = Position::new(mouse.column, mouse.row);
    panes.into_iter().find_map(|(pane, area)| Some((pane, area.filter(|a| a.contains(here))?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::{Msg, Studio, testing};

    fn studio() -> Studio {
        let (mut studio, _) = Studio::new(&testing::config()).unwrap();
        studio.handle(Msg::Resize(120, 40));
        studio
    }

    fn mouse(studio: &mut Studio, column: u16, row: u16, kind: MouseKind) -> Vec<Effect> {
        studio.handle(Msg::Mouse(Mouse { column, row, kind }))
    }

    #[test]
    fn a_click_goes_to_a_pane_and_selects_a_clip() {
        let mut studio = studio();
        mouse(&mut studio, 80, 5, MouseKind::Click);
        assert_eq!(studio.model().focus, Pane::Caption);
        mouse(&mut studio, 5, 3, MouseKind::Click);
        assert_eq!((studio.model().focus, studio.model().library.cursor), (Pane::Library, 1));
        // Below the last clip, and on borders, nothing is selected.
        for row in [1, 10, 0, 39] {
            mouse(&mut studio, 5, row, MouseKind::Click);
            assert_eq!(studio.model().library.cursor, 1, "row {row}");
        }
    }

    #[test]
    fn the_wheel_moves_what_is_under_it_and_leaves_the_focus() {
        let mut studio = studio();
        mouse(&mut studio, 80, 5, MouseKind::Click);
        mouse(&mut studio, 5, 3, MouseKind::WheelDown);
        assert_eq!((studio.model().focus, studio.model().library.cursor), (Pane::Caption, 1));
        mouse(&mut studio, 5, 3, MouseKind::WheelUp);
        assert_eq!(studio.model().library.cursor, 0);
        // Over an open list it moves the list.
        studio.handle(Msg::Key(crate::tui::Key::char('m')));
        let before = studio.model().overlay.clone();
        mouse(&mut studio, 5, 3, MouseKind::WheelUp);
        assert_ne!(studio.model().overlay, before);
        assert_eq!(studio.model().library.cursor, 0);
        mouse(&mut studio, 5, 3, MouseKind::Click);
        assert!(studio.model().overlay.is_some(), "a click chooses nothing");
    }

    #[test]
    fn outside_of_everything_nothing_happens() {
        let mut studio = studio();
        for kind in [MouseKind::Click, MouseKind::WheelDown] {
            assert!(mouse(&mut studio, 500, 500, kind).is_empty());
        }
        studio.handle(Msg::Resize(10, 3));
        assert!(mouse(&mut studio, 1, 1, MouseKind::Click).is_empty());
    }
}
