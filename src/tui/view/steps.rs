//! The ledger: a row for each step, and below them the details of the selected one.

use ratatui::layout::Constraint::{self, Fill, Length, Min};
use ratatui::layout::{Layout, Margin, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Padding, Paragraph, Row, Table, TableState};

use crate::look::{ColorDepth, Role, Theme};
use crate::tui::model::{Model, Run};
use crate::tui::pane::Pane;
use crate::tui::view::{has_focus, inspector, legend, passage};
use crate::tui::widgets::{Frame, Target, number, panel, rule, scrollbar, title, wrap};
use specreel_client::present::formats::{duration, plural};
use specreel_client::present::ledger::{self, Mark, Piece};

/// Lines below the rows for the selected step, with the rule above them.
const DETAILS: u16 = 4;
/// Rows that remain where those lines are shown.
const LEAST_ROWS: u16 = 6;
const COUNTS: u16 = 8;
const TIME: u16 = 7;
/// Columns from which on times are shown.
const WITH_TIMES: u16 = 64;
/// Rows from which on a step may take several lines, and how many it may take.
const TALL: u16 = 20;
const LINES: usize = 3;

/// Draw the pane, with the legend of verdicts on its border if the caption is not on the screen.
pub(super) fn draw(model: &Model, has_legend: bool, theme: &Theme, frame: &mut Frame<'_>, area: Rect) {
    let focused = has_focus(model, Pane::Steps);
    let mut block = panel(title("Steps", focused, theme), focused, theme).padding(Padding::horizontal(1));
    let inner = block.inner(area);
    let run = model.runs.shown().filter(|run| !run.log.steps().is_empty() || run.log.scene().is_some());
    let Some(run) = run else {
        frame.render_widget(block, area);
        let words =
            "The steps of a run: what was drafted, what was accepted, and what the target wrote instead.";
        let lines = wrap([(words, theme.style(Role::Dim))], inner.width.into());
        frame.render_widget(Paragraph::new(lines), inner);
        return;
    };
    let room = usize::from(area.width).saturating_sub(14);
    if has_legend {
        block = block.title_top(legend::line(run, theme, room).right_aligned());
    }
    let n = run.log.steps().len();
    let words = format!(" {} ", plural(n as u64, "step"));
    block = block.title_bottom(theme.line(Role::Dim, words).right_aligned());
    frame.render_widget(block, area);
    let details = if inner.height >= DETAILS + LEAST_ROWS { DETAILS } else { 0 };
    let [above, below] = inner.layout(&Layout::vertical([Min(0), Length(details)]));
    table(model, run, theme, frame, above);
    if details > 0 && n > 0 {
        detail(model, run, theme, frame, below);
    }
}

/// The rows around the cursor; without one, the newest, and the step that is being played.
fn table(model: &Model, run: &Run, theme: &Theme, frame: &mut Frame<'_>, area: Rect) {
    let n = run.log.steps().len();
    let rows = usize::from(area.height).saturating_sub(1);
    let cursor = model.shown_step();
    let digits = (n.to_string().len() as u16).max(2);
    let has_times = area.width >= WITH_TIMES;
    let times: &[Constraint] = if has_times { &[Length(TIME); 2] } else { &[] };
    let widths = [&[Length(digits), Fill(1), Length(COUNTS)], times].concat();
    let spaces = 2 * (widths.len() as u16 - 1);
    let taken = digits + COUNTS + TIME * times.len() as u16 + spaces;
    let columns = usize::from(area.width.saturating_sub(taken));
    let titles =
        [number("#"), Cell::new("draft → target"), number("accepted"), number("draft"), number("verify")];
    let header = Row::new(titles.into_iter().take(widths.len())).style(theme.style(Role::Dim));
    // A step that is played is in the log once the target's token is there.
    let scene = run.log.scene().filter(|scene| cursor.is_none() && scene.step == n);
    // Not every terminal can strike text out.
    let strikes =
        matches!(model.config.colors, ColorDepth::Indexed | ColorDepth::True) && !model.config.ascii;
    let most = if area.height >= TALL { LINES } else { 1 };
    let staged = scene.map(|scene| {
        let parts = passage::staged(&scene, model, theme);
        let mut lines = wrap(parts.iter().map(|(text, style)| (text.as_ref(), *style)), columns);
        lines.truncate(most);
        Row::new([number((n + 1).to_string()).style(theme.style(Role::Dim)), Cell::new(lines)])
            .height(most as u16)
    });
    let room = rows - if staged.is_some() { most.min(rows) } else { 0 };
    let height = |step: usize| {
        let row = ledger::rows(&run.log, step..step + 1).pop();
        row.map_or(1, |row| lines(&row.pieces, columns, most, strikes, theme).len())
    };
    let window = Window::around(cursor, n, room, height);
    let mut y = area.y + 1;
    for step in window.top..window.top + window.count {
        let row = Rect { y, height: height(step) as u16, ..area };
        frame.mark(row.intersection(area), Target::Row(step));
        y = row.bottom();
    }
    let row = |row: ledger::Row| {
        let lines = lines(&row.pieces, columns, most, strikes, theme);
        let height = lines.len() as u16;
        let cells = [
            number(row.number.to_string()).style(theme.style(Role::Dim)),
            Cell::new(lines),
            number(row.counts()),
            number(duration(row.draft_ms)).style(theme.style(Role::Dim)),
            number(duration(row.verify_ms)).style(theme.style(Role::Dim)),
        ];
        Row::new(cells.into_iter().take(widths.len())).height(height)
    };
    // The inspector's cursor is also the ledger's.
    let is_active = has_focus(model, Pane::Steps) || model.caption.inspector.is_some();
    let selection = theme.style(if is_active { Role::Selection } else { Role::SelectionDim });
    let shown =
        ledger::rows(&run.log, window.top..window.top + window.count).into_iter().map(row).chain(staged);
    let table = Table::new(shown, &widths).column_spacing(2).header(header).row_highlight_style(selection);
    let mut state = TableState::new().with_selected(cursor.map(|cursor| cursor.saturating_sub(window.top)));
    frame.render_stateful_widget(table, area, &mut state);
    scrollbar(frame, theme, area.outer(Margin::new(2, 0)), (window.top, n, window.count));
}

struct Window {
    top: usize,
    count: usize,
}

impl Window {
    /// As many of `n` steps as fit in `rows` lines, around the cursor or the newest; `height` is the lines of a step.
    fn around(cursor: Option<usize>, n: usize, rows: usize, height: impl Fn(usize) -> usize) -> Self {
        let Some(last) = n.checked_sub(1) else { return Self { top: 0, count: 0 } };
        let at = cursor.map_or(last, |cursor| cursor.min(last));
        let (mut top, mut end, mut used) = (at, at + 1, height(at));
        // Half of the lines are above the cursor, unless fewer are needed below it.
        while top > 0 && used + height(top - 1) <= rows / 2 {
            top -= 1;
            used += height(top);
        }
        while end < n && used + height(end) <= rows {
            used += height(end);
            end += 1;
        }
        while top > 0 && used + height(top - 1) <= rows {
            top -= 1;
            used += height(top);
        }
        Self { top, count: end - top }
    }
}

/// What is known of the step under the cursor, or of the newest: why it ended, times, the branches of a tree.
fn detail(model: &Model, run: &Run, theme: &Theme, frame: &mut Frame<'_>, area: Rect) {
    let n = run.log.steps().len();
    let at = model.shown_step().unwrap_or(n - 1);
    let Some(row) = ledger::rows(&run.log, at..at + 1).pop() else { return };
    let step = &run.log.steps()[at];
    let dim = theme.style(Role::Dim);
    let columns = usize::from(area.width);
    let mut lines = match step.parents.is_empty() {
        true => Vec::new(),
        false => inspector::draft(step, None, theme, columns).into_iter().take(1).collect(),
    };
    let times = format!(" · draft {} · verify {}", duration(row.draft_ms), duration(row.verify_ms));
    let name = format!("step {}: ", row.number);
    lines.extend(wrap(
        [
            (name.as_str(), theme.style(Role::Accent)),
            (row.reason.as_str(), Style::new()),
            (times.as_str(), dim),
        ],
        columns,
    ));
    frame.render_widget(Paragraph::new(lines).block(rule(theme)), area);
}

/// A row's text in the styles of its pieces, cut to `most` lines. Where text cannot be struck out, `~~` marks it.
fn lines(pieces: &[Piece], columns: usize, most: usize, strikes: bool, theme: &Theme) -> Vec<Line<'static>> {
    let marks = if strikes { 0 } else { 4 * usize::from(pieces.iter().any(|piece| piece.mark.is_struck())) };
    let cut = |room: usize| {
        let pieces = ledger::fit(pieces, room.saturating_sub(marks));
        if strikes { pieces } else { ledger::marked(&pieces) }
    };
    let spans = |pieces: Vec<Piece>| -> Vec<(String, Style)> {
        pieces.into_iter().map(|piece| (piece.text, style(piece.mark, theme))).collect()
    };
    // Words that do not break evenly may need a line more than there is: then the text is cut further.
    for room in (1..=most).rev().map(|lines| lines * columns) {
        let spans = spans(cut(room));
        let lines = wrap(spans.iter().map(|(text, style)| (text.as_str(), *style)), columns);
        if (1..=most).contains(&lines.len()) {
            return lines;
        }
    }
    vec![Line::default()]
}

fn style(mark: Mark, theme: &Theme) -> Style {
    let dim = theme.style(Role::Dim);
    match mark {
        Mark::Token(verdict) => theme.verdict(verdict),
        Mark::Rejected => theme.style(Role::Rejected),
        Mark::Discarded => dim.add_modifier(Modifier::CROSSED_OUT),
        Mark::Unused | Mark::Between => dim,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(
        cursor: Option<usize>,
        n: usize,
        rows: usize,
        height: impl Fn(usize) -> usize,
    ) -> (usize, usize) {
        let window = Window::around(cursor, n, rows, height);
        (window.top, window.count)
    }

    #[test]
    fn the_window_has_the_cursor_or_the_newest_step() {
        let one = |_| 1;
        assert_eq!(window(None, 10, 4, one), (6, 4));
        assert_eq!(window(Some(0), 10, 4, one), (0, 4));
        assert_eq!(window(Some(5), 10, 4, one), (4, 4));
        assert_eq!(window(Some(9), 10, 4, one), (6, 4));
        assert_eq!(window(Some(1), 2, 4, one), (0, 2));
        assert_eq!(window(None, 0, 4, one), (0, 0));
        // Steps of several lines, of which every second takes three.
        let tall = |step: usize| if step.is_multiple_of(2) { 3 } else { 1 };
        assert_eq!(window(None, 10, 7, tall), (7, 3));
        assert_eq!(window(Some(4), 10, 8, tall), (3, 4));
        for cursor in 0..10 {
            let (top, count) = window(Some(cursor), 10, 8, tall);
            assert!((top..top + count).contains(&cursor));
            assert!((top..top + count).map(tall).sum::<usize>() <= 8);
        }
    }

    #[test]
    fn a_row_takes_the_lines_that_it_may_and_keeps_its_end() {
        let theme = Theme::built_in("dark", ColorDepth::True).unwrap();
        let piece = |text: &str, mark| Piece { text: text.into(), mark };
        let pieces = [
            piece(
                "A small green star falls slowly through the",
                Mark::Token(specreel_record::Verdict::Exact),
            ),
            piece(" ", Mark::Between),
            piece("screen", Mark::Rejected),
            piece(" → ", Mark::Between),
            piece("picture", Mark::Token(specreel_record::Verdict::Corrected)),
        ];
        for columns in 15..70 {
            for most in 1..4 {
                for strikes in [true, false] {
                    let lines = lines(&pieces, columns, most, strikes, &theme);
                    assert!((1..=most).contains(&lines.len()), "{columns} {most}: {lines:?}");
                    assert!(lines.iter().all(|line| line.width() <= columns), "{columns} {most}: {lines:?}");
                    let text: String = lines.iter().map(ToString::to_string).collect();
                    assert!(text.ends_with("picture"), "{columns} {most}: {text}");
                }
            }
        }
    }
}
