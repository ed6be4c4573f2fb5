//! The panes, and the whole screen: a function of the model. Nothing here changes anything, and every pane asks the theme
//! for meanings.

pub(crate) mod caption;
mod heat;
mod history;
mod inspector;
mod layout;
mod legend;
mod library;
mod meters;
mod outside;
mod passage;
mod prompt;
mod status;
mod steps;
mod tour;

use ratatui::layout::{Constraint::Length, Position, Rect};
use ratatui::{buffer::Buffer, widgets::Paragraph};

use crate::look::{Role, Theme};
use crate::tui::widgets::{Frame, Hit, Target};
use crate::tui::{model::Model, pane::Pane, text};
pub(crate) use layout::{Areas, areas, is_stacked, is_wide};
pub(crate) use outside::outside;

pub(crate) fn draw(model: &Model, theme: &Theme, frame: &mut Frame<'_>) {
    let area = frame.area();
    frame.buffer_mut().set_style(area, theme.style(Role::Text));
    let Some(areas) = areas((area.width, area.height), model.focus, model.caption.inspector.is_some()) else {
        return too_small(theme, frame, area);
    };
    // The inspector is the caption's.
    for (pane, area) in [
        (Pane::Library, areas.library),
        (Pane::Prompt, areas.prompt),
        (Pane::Caption, areas.caption),
        (Pane::Steps, areas.steps),
        (Pane::Meters, areas.meters),
        (Pane::Caption, areas.inspector),
    ] {
        area.into_iter().for_each(|area| frame.mark(area, Target::Pane(pane)));
    }
    status::header(model, theme, frame, areas.header);
    if let Some(area) = areas.library {
        frame.slot = library::draw(model, theme, frame, area);
    }
    if let Some(area) = areas.prompt {
        prompt::draw(model, theme, frame, area);
    }
    if let Some(area) = areas.caption {
        caption::draw(model, theme, frame, area);
    }
    // The legend is on the caption's border, or else on the border of the pane in its place.
    let without_caption = areas.caption.is_none();
    if let Some(area) = areas.steps {
        steps::draw(model, without_caption, theme, frame, area);
    }
    if let Some((area, inspector)) = areas.inspector.zip(model.caption.inspector) {
        inspector::draw(model, inspector, theme, frame, area);
    }
    if let Some(area) = areas.meters {
        meters::draw(model, without_caption && areas.steps.is_none(), theme, frame, area);
    }
    status::draw(model, theme, frame, areas.status);
    if let Some(screen) = model.screens.top() {
        frame.slot.take_if(|_| model.screens.typed_on(Pane::Library).is_none());
        screen.draw(model, theme, frame);
    }
    status::long_notice(model, theme, frame, areas.status);
}

/// What is at a position of the screen, which is drawn off the screen to find out.
pub(crate) fn hit(model: &Model, position: Position) -> Hit {
    let (columns, rows) = model.size;
    let mut buffer = Buffer::empty(Rect::new(0, 0, columns, rows));
    let mut frame = Frame::new(&mut buffer);
    draw(model, model.theme(), &mut frame);
    frame.at(position)
}

/// True if the library has room for a thumbnail of the selected clip, and no box covers it.
pub(crate) fn shows_thumbnail(model: &Model) -> bool {
    let areas = areas(model.size, model.focus, model.caption.inspector.is_some());
    let pane = areas.and_then(|a| a.library);
    let is_free = model.screens.is_empty() || model.screens.typed_on(Pane::Library).is_some();
    is_free && pane.is_some_and(|p| library::picture_rows(model, p) > 0)
}

fn has_focus(model: &Model, pane: Pane) -> bool {
    model.focus == pane && !model.screens.covers()
}

fn too_small(theme: &Theme, frame: &mut Frame<'_>, area: Rect) {
    let words = ["terminal too small", "needs 60 × 16", &format!("has {} × {}", area.width, area.height)]
        .map(|w| text::fit(w, area.width.into()));
    let lines = words.map(|w| theme.line(Role::Warn, w));
    let at = area.centered_vertically(Length(area.height.min(3)));
    frame.render_widget(Paragraph::new(lines.to_vec()).centered(), at);
}
