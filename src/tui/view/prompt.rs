//! The prompt pane.

use ratatui::{Frame, layout::Rect, style::Modifier, text::Line};

use super::{has_focus, panel, title};
use crate::tui::{
    Action, KeyContext, Theme,
    model::{Model, Pane},
    theme::Role,
};

pub(super) fn draw(model: &Model, theme: &Theme, frame: &mut Frame<'_>, area: Rect) {
    let focused = has_focus(model, Pane::Prompt);
    let mut block = panel(title("Prompt", focused, theme), focused, theme);
    if focused {
        let key = |action| model.keymap.keys(KeyContext::Prompt, action).first().map(ToString::to_string);
        if let (Some(run), Some(newline)) = (key(Action::Run), key(Action::Newline)) {
            let words = format!(" {run} runs · {newline} new line ");
            if words.len() + 4 < area.width.into() {
                block = block.title_bottom(Line::styled(words, theme.style(Role::Dim)).right_aligned());
            }
        }
    }
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let inner = Rect { x: inner.x + 1, width: inner.width.saturating_sub(2), ..inner };
    frame.render_widget(&model.prompt.editor, inner);
    if !focused {
        // The editor always draws its cursor; only the pane with the focus has one.
        for position in inner.positions() {
            if let Some(cell) = frame.buffer_mut().cell_mut(position) {
                cell.modifier.remove(Modifier::REVERSED);
            }
        }
    }
}
