//! The prompt pane.

use ratatui::{layout::Rect, style::Modifier, widgets::Padding};

use crate::look::{Action, KeyContext, Role, Theme};
use crate::tui::widgets::{Frame, panel, title};
use crate::tui::{model::Model, pane::Pane, text, view::has_focus};

/// Columns of the border that the pane's name takes, and the spaces around other words.
const TITLE: usize = 13;

pub(super) fn draw(model: &Model, theme: &Theme, frame: &mut Frame<'_>, area: Rect) {
    let focused = has_focus(model, Pane::Prompt);
    let mut block = panel(title("Prompt", focused, theme), focused, theme).padding(Padding::horizontal(1));
    if focused {
        let key = |action| model.keymap.first(KeyContext::Prompt, action);
        if let (Some(run), Some(newline)) = (key(Action::Run), key(Action::Newline)) {
            let words = format!(" {run} runs · {newline} new line ");
            if words.len() + 4 < area.width.into() {
                block = block.title_bottom(theme.line(Role::Dim, words).right_aligned());
            }
        }
    }
    let has_speech =
        model.library.selected().is_some_and(|entry| model.library.speech.contains_key(&entry.path));
    let speech = if has_speech { " + speech " } else { "" };
    if let Some(sampling) = model.sampling.label() {
        let room = usize::from(area.width).saturating_sub(TITLE + speech.len());
        let words = text::fit(&format!("sampling: {sampling}"), room);
        block = block.title_top(theme.line(Role::Accent, format!(" {words} ")).right_aligned());
    }
    if has_speech {
        block = block.title_top(theme.line(Role::Accent, speech).right_aligned());
    }
    let inner = frame.border(block, area);
    frame.render_widget(&model.prompt.editor, inner);
    if !focused {
        // The widget always draws a cursor, which only the pane with the focus should have.
        for position in inner.positions() {
            if let Some(cell) = frame.buffer_mut().cell_mut(position) {
                cell.modifier.remove(Modifier::REVERSED);
            }
        }
    }
}
