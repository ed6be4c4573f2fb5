//! Panes and boxes: borders, titles, and the area inside.

use ratatui::layout::{Constraint::Length, Rect};
use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Borders, Clear, Padding};

use super::{Frame, Target};
use crate::look::{Role, Theme};
use crate::tui::text;

/// A pane with a rounded border, which shows whether it has the focus.
pub fn panel<'a>(title: impl Into<Line<'a>>, focused: bool, theme: &Theme) -> Block<'a> {
    let border = theme.style(if focused { Role::BorderFocus } else { Role::Border });
    let block = Block::bordered().border_type(BorderType::Rounded).border_style(border);
    block.title_top(title.into())
}

pub fn title(name: &str, focused: bool, theme: &Theme) -> Span<'static> {
    // Without the focus the title has the text's color, not the border's.
    let style = if focused { theme.style(Role::BorderFocus) } else { on_border(theme) };
    Span::styled(format!(" {name} "), style.patch(theme.style(Role::Title)))
}

/// The text's style for words on a border, which would otherwise take the border's.
pub(crate) fn on_border(theme: &Theme) -> Style {
    Style::new().fg(Color::Reset).patch(theme.style(Role::Text))
}

pub(crate) fn dialog(name: &str, theme: &Theme) -> Block<'static> {
    panel(Line::from(title(name, true, theme)), true, theme).padding(Padding::horizontal(1))
}

/// The columns of a box around rows of so many: what they say is not cut while the screen has room for it.
pub(crate) fn around(rows: usize, least: u16) -> u16 {
    least.max(u16::try_from(rows + 4).unwrap_or(u16::MAX - 6))
}

/// Clear the area of a box in the middle of the screen and draw its border. Returns the area inside.
pub(crate) fn popup(frame: &mut Frame<'_>, theme: &Theme, columns: u16, rows: u16, block: Block<'_>) -> Rect {
    let whole = frame.area();
    // A border next to a border would only be noise.
    let columns = if columns + 6 > whole.width { whole.width } else { columns };
    let rows = rows.min(whole.height.saturating_sub(2));
    let area = whole.centered(Length(columns), Length(rows));
    frame.mark(area, Target::Box);
    frame.render_widget(Clear, area);
    // Half of a wide character would overwrite the first column of the border.
    for y in area.top()..area.bottom() {
        let left = area.x.checked_sub(1).and_then(|x| frame.buffer_mut().cell_mut((x, y)));
        if let Some(cell) = left.filter(|cell| text::width(cell.symbol()) > 1) {
            cell.set_symbol(" ");
        }
    }
    frame.buffer_mut().set_style(area, theme.style(Role::Text));
    frame.border(block, area)
}

pub(crate) fn rule(theme: &Theme) -> Block<'static> {
    Block::new().borders(Borders::TOP).border_style(theme.style(Role::Border))
}
