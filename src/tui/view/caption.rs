//! The caption pane: the caption as it streams, every token in the style of its verdict.

use ratatui::text::{Line, Span};
use ratatui::{layout::Rect, widgets::Paragraph};

use crate::look::{Role, Theme};
use crate::tui::model::{Model, Run, run::choice, search::Search};
use crate::tui::view::passage::{self, Laid};
use crate::tui::view::{Areas, areas, has_focus, legend, tour};
use crate::tui::widgets::{Frame, clock_bar, filter_line, mark, on_border, panel, title};
use crate::tui::{pane::Pane, text};
use specreel_client::present::formats::plural;

pub(super) fn draw(model: &Model, theme: &Theme, frame: &mut Frame<'_>, area: Rect) {
    let focused = has_focus(model, Pane::Caption);
    let run = model.runs.shown();
    let mut block = panel(title("Caption", focused, theme), focused, theme);
    let room = usize::from(area.width).saturating_sub(14);
    let inner = text_area(model, area);
    let laid = Laid { rows: inner.height.into(), ..passage::lay(model, theme, inner.width.into()) };
    if !model.caption.search.query.is_empty() || model.screens.typed_on(Pane::Caption).is_some() {
        block = block.title_top(search(model, &laid, theme, room).right_aligned());
    } else if let Some(run) = run {
        let state = playback(model, run, theme);
        let room = room.saturating_sub(state.width());
        block = block.title_top(state).title_top(legend::line(run, theme, room).right_aligned());
    }
    let (top, up) = match run {
        Some(_) => (laid.top(model.caption.up), model.caption.up.min(laid.overflow())),
        // The text before the first run is read from its beginning.
        None => (0, 0),
    };
    let right = match run.map(|r| r.stats().emitted) {
        _ if up > 0 => theme.line(Role::Accent, format!(" ↓ {} ", plural(up as u64, "more line"))),
        Some(n @ 1..) => theme.line(Role::Dim, format!(" {} ", plural(n, "token"))),
        _ => Line::default(),
    };
    if let Some(run) = run {
        let room = usize::from(area.width).saturating_sub(4 + right.width());
        block = block.title_bottom(foot(run, theme, room));
    }
    frame.render_widget(block.title_bottom(right.right_aligned()), area);
    if let Some(run) = model.shown_replay() {
        let at = Rect { y: inner.bottom() + 1, height: 1, ..inner };
        frame.render_widget(clock_bar(&run.log, theme, at.width.into()), at);
    }
    let shown: Vec<_> = laid.lines.into_iter().skip(top).take(laid.rows).collect();
    frame.render_widget(Paragraph::new(shown), inner);
    let guide = guide(model, area);
    if !guide.is_empty() {
        let height = guide.len() as u16;
        frame.render_widget(Paragraph::new(guide), Rect { y: area.bottom() - 1 - height, height, ..inner });
    }
}

/// How a live run is played, until its end: whether it is paused, and how much it is slowed. A replay has a clock of its own.
fn playback(model: &Model, run: &Run, theme: &Theme) -> Line<'static> {
    if !model.shows_player() || model.shown_replay().is_some() {
        return Line::default();
    }
    let mut line = Line::default();
    let paused = run.log.is_paused();
    let words = match (run.log.speed_words(), paused) {
        (Some(speed), _) => format!(" {speed} "),
        (None, true) => " paused ".into(),
        (None, false) => return line,
    };
    let (sign, role) = if paused { ("‖", Role::Warn) } else { ("▶", Role::Good) };
    let on = |role| on_border(theme).patch(theme.style(role));
    line.push_span(Span::styled(sign, on(role)));
    line.push_span(Span::styled(words, on(Role::Accent)));
    line
}

/// The method of a run, how many notes it has, and if there is room the clip.
fn foot(run: &Run, theme: &Theme, columns: usize) -> Line<'static> {
    let dim = theme.style(Role::Dim);
    let mut foot = Line::from(vec![Span::raw(" "), mark(run.lossless, theme), Span::raw(" ")]);
    let label = text::fit(&run.label, columns.saturating_sub(foot.width() + 1));
    foot.push_span(Span::styled(format!("{label} "), dim));
    if let n @ 1.. = run.log.notes().iter().filter(|note| choice(note).is_none()).count() {
        let notes = plural(n as u64, "note");
        // The meters have them whole.
        let words = [format!("· {notes} in the meters "), format!("· {notes} ")];
        let fits = |words: &&String| foot.width() + text::width(words) <= columns;
        let words = words.iter().find(fits).unwrap_or(&words[1]);
        foot.push_span(theme.span(Role::Warn, words.clone()));
    }
    let room = columns.saturating_sub(foot.width() + 3);
    if room >= 8 {
        foot.push_span(Span::styled(format!("· {} ", text::fit(&run.subject.name(), room)), dim));
    }
    foot
}

/// Rows of the caption that the guided first run leaves.
const CAPTION_ROWS: usize = 4;

/// The lines of the guided first run, if there is room for them.
fn guide(model: &Model, area: Rect) -> Vec<Line<'static>> {
    let lines = tour::lines(model, model.theme(), area.width.saturating_sub(4).into());
    let fits = lines.len() + CAPTION_ROWS + 2 <= area.height.into() && model.shown_replay().is_none();
    if fits { lines } else { Vec::new() }
}

/// Inside the border, with a margin of one column; a replay's clock and the guided first run take the last lines.
fn text_area(model: &Model, area: Rect) -> Rect {
    let replay = if model.shown_replay().is_some() { 2 } else { 0 };
    let below = replay + guide(model, area).len() as u16;
    Rect {
        x: area.x + 2,
        y: area.y + 1,
        width: area.width.saturating_sub(4),
        height: area.height.saturating_sub(2 + below),
    }
}

fn places(model: &Model) -> Option<Areas> {
    areas(model.size, model.focus, model.caption.inspector.is_some())
}

/// The caption as it is laid out now; `None` if it is not on the screen.
pub(crate) fn lay(model: &Model) -> Option<Laid> {
    let area = places(model).and_then(|a| a.caption).map(|a| text_area(model, a))?;
    let mut laid = passage::lay(model, model.theme(), area.width.into());
    laid.rows = area.height.into();
    Some(laid)
}

/// The scroll position that shows the token cursor, in lines from the end; `None` if it is visible already.
pub(crate) fn scroll_to_cursor(model: &Model) -> Option<usize> {
    let laid = lay(model)?;
    laid.cursor.and_then(|line| laid.scroll_to(line, model.caption.up))
}

pub(crate) fn overflow(model: &Model) -> usize {
    lay(model).map_or(0, |laid| laid.overflow())
}

pub(crate) fn page(model: &Model) -> usize {
    places(model).and_then(|a| a.caption).map_or(1, |a| text_area(model, a).height.into())
}

fn search(model: &Model, laid: &Laid, theme: &Theme, columns: usize) -> Line<'static> {
    let Search { query, at } = &model.caption.search;
    let count = match laid.found.len() {
        _ if query.is_empty() => Span::raw(""),
        0 => theme.span(Role::Warn, "no match "),
        n => theme.span(Role::Dim, format!("{} of {n} ", (at + 1).min(n))),
    };
    let room = columns.saturating_sub(count.width() + 5);
    let mut line = filter_line(query, model.screens.typed_on(Pane::Caption), room, theme);
    line.push_span(count);
    line
}
