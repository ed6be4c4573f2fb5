//! The areas of the panes, for every terminal size.

use ratatui::layout::Rect;

use crate::tui::pane::Pane;

const LEAST: (u16, u16) = (60, 16);

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Areas {
    pub header: Rect,
    pub library: Option<Rect>,
    pub prompt: Option<Rect>,
    pub caption: Option<Rect>,
    pub steps: Option<Rect>,
    pub meters: Option<Rect>,
    pub inspector: Option<Rect>,
    pub status: Rect,
}

/// Columns from which on caption, ledger and meters are shown at the same time.
const WIDE: u16 = 170;

/// True if caption, ledger and meters are shown at the same time. On smaller screens the ledger is shown while it has the focus.
pub(crate) fn is_wide(size: (u16, u16)) -> bool {
    size.0 >= WIDE && !is_stacked(size)
}

/// True if the panes are stacked, and only one of library, caption, ledger and meters is shown in full.
pub(crate) fn is_stacked((columns, rows): (u16, u16)) -> bool {
    columns < 92 || rows < 24
}

/// Rows of the meters below the inspector.
const METERS: u16 = 20;

/// Divide a screen of `(columns, rows)`; `None` if it is too small. The inspector replaces the meters and takes more room; on a wide
/// and high screen the meters stay below it. Unless the screen is wide, the ledger takes the place of the meters, or of the caption
/// above the inspector.
pub(crate) fn areas(size: (u16, u16), focus: Pane, inspecting: bool) -> Option<Areas> {
    let mut areas = panes(size, focus, inspecting)?;
    if inspecting {
        areas.inspector = areas.meters.take();
    }
    if let Some(inspector) =
        areas.inspector.as_mut().filter(|area| is_wide(size) && area.height >= 36 + METERS)
    {
        inspector.height -= METERS;
        areas.meters = Some(Rect { y: inspector.bottom(), height: METERS, ..*inspector });
    }
    Some(areas)
}

/// The same, with the inspector in the place of the meters.
fn panes((columns, rows): (u16, u16), focus: Pane, inspecting: bool) -> Option<Areas> {
    if columns < LEAST.0 || rows < LEAST.1 {
        return None;
    }
    let body = rows - 2;
    let at = |x, y, width, height| Some(Rect { x, y: y + 1, width, height });
    let mut areas = Areas {
        header: Rect { x: 0, y: 0, width: columns, height: 1 },
        status: Rect { x: 0, y: rows - 1, width: columns, height: 1 },
        ..Areas::default()
    };
    if is_stacked((columns, rows)) && inspecting {
        let inspector = (body * 3 / 5).max(body.saturating_sub(10));
        areas.caption = at(0, 0, columns, body - inspector);
        areas.meters = at(0, body - inspector, columns, inspector);
        if focus == Pane::Steps {
            areas.steps = areas.caption.take();
        }
        return Some(areas);
    }
    if is_stacked((columns, rows)) {
        let prompt = if focus == Pane::Prompt && body > 18 { 6 } else { 4 };
        let strip = if focus == Pane::Meters { 0 } else { 4 };
        let main = at(0, prompt, columns, body - prompt - strip);
        areas.prompt = at(0, 0, columns, prompt);
        match focus {
            Pane::Library => areas.library = main,
            Pane::Prompt | Pane::Caption => areas.caption = main,
            Pane::Steps => areas.steps = main,
            Pane::Meters => areas.meters = main,
        }
        if strip > 0 {
            areas.meters = at(0, body - strip, columns, strip);
        }
        return Some(areas);
    }
    let prompt = (body / 4).clamp(6, 10);
    if is_wide((columns, rows)) {
        // Lines of text and rows of steps need columns more than rows: the ledger is below the caption.
        let left = (columns - 142).clamp(28, 44);
        let right = (columns * 2 / 5).clamp(70, 100);
        let middle = columns - left - right;
        let caption = (body * 2 / 5).max(8);
        areas.library = at(0, 0, left, body - prompt);
        areas.prompt = at(0, body - prompt, left, prompt);
        areas.caption = at(left, 0, middle, caption);
        areas.steps = at(left, caption, middle, body - caption);
        areas.meters = at(left + middle, 0, right, body);
        return Some(areas);
    }
    if columns >= 156 {
        let left = 40;
        let right = 62;
        let middle = columns - left - right;
        areas.library = at(0, 0, left, body - prompt);
        areas.prompt = at(0, body - prompt, left, prompt);
        areas.caption = at(left, 0, middle, body);
        areas.meters = at(left + middle, 0, right, body);
    } else {
        let left = (columns / 3).clamp(30, 42);
        let right = columns - left;
        let meters = if inspecting { body * 13 / 20 } else { (body * 11 / 20).clamp(11, 20) };
        areas.library = at(0, 0, left, body - prompt);
        areas.prompt = at(0, body - prompt, left, prompt);
        areas.caption = at(left, 0, right, body - meters);
        areas.meters = at(left, body - meters, right, meters);
    }
    if focus == Pane::Steps {
        areas.steps = if inspecting { areas.caption.take() } else { areas.meters.take() };
    }
    Some(areas)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panes_fill_the_screen_without_overlap_at_every_size() {
        for columns in (60..220).step_by(7) {
            for rows in 16..70 {
                for (focus, inspecting) in Pane::ALL.into_iter().flat_map(|p| [(p, false), (p, true)]) {
                    let a = areas((columns, rows), focus, inspecting).unwrap();
                    let panes: Vec<_> = [a.library, a.prompt, a.caption, a.steps, a.meters, a.inspector]
                        .into_iter()
                        .flatten()
                        .collect();
                    let sum: u32 = panes.iter().map(|r| r.area()).sum();
                    assert_eq!(sum, u32::from(columns) * u32::from(rows - 2), "{columns}x{rows}");
                    for (i, p) in panes.iter().enumerate() {
                        assert!(p.bottom() < rows && p.right() <= columns && p.height >= 4);
                        assert!(panes[i + 1..].iter().all(|q| !p.intersects(*q)));
                    }
                }
            }
        }
    }

    #[test]
    fn the_ledger_is_below_the_caption_or_where_the_focus_is() {
        let panes = |size, focus, inspecting| {
            let a = areas(size, focus, inspecting).unwrap();
            [a.caption, a.steps, a.meters.or(a.inspector)].map(|pane| pane.is_some())
        };
        for focus in [Pane::Library, Pane::Caption, Pane::Steps] {
            assert_eq!(panes((170, 40), focus, false), [true, true, true], "{focus:?}");
            assert_eq!(panes((200, 60), focus, true), [true, true, true], "{focus:?}");
            let both = areas((200, 60), focus, true).unwrap();
            assert!(both.meters.is_some() && both.inspector.is_some(), "{focus:?}");
        }
        for size in [(120, 40), (160, 40)] {
            assert_eq!(panes(size, Pane::Caption, false), [true, false, true]);
            assert_eq!(panes(size, Pane::Steps, false), [true, true, false]);
            assert_eq!(panes(size, Pane::Steps, true), [false, true, true]);
        }
        assert_eq!(panes((80, 24), Pane::Steps, false), [false, true, true]);
        assert_eq!(panes((80, 24), Pane::Steps, true), [false, true, true]);
    }

    #[test]
    fn below_the_minimum_size_there_is_no_layout() {
        assert_eq!(areas((59, 16), Pane::Library, false), None);
        assert_eq!(areas((200, 15), Pane::Library, false), None);
    }
}
