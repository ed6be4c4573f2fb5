//! The timeline: a bar of the clip with its segments, and their captions beside their times.

use super::status::SPINNER;
use super::*;
use crate::tui::model::timeline::{Piece, found, pieces};
use specreel_record::clock;

const COLUMNS: u16 = 104;
/// Columns of the times of a segment.
const TIMES: u16 = 19;

pub(super) fn draw(model: &Model, query: &str, cursor: usize, theme: &Theme, frame: &mut Frame<'_>) {
    let pieces = pieces(model);
    let found = found(model, query);
    let done =
        pieces.iter().filter(|piece| piece.run.is_some_and(|run| run.log.whole().is_finished())).count();
    let title = format!("Timeline · {done} of {}", plural(pieces.len() as u64, "segment"));
    let inner = popup(frame, theme, COLUMNS, pieces.len() as u16 + 12, dialog(&title, theme));
    let details = (inner.height / 3).clamp(3, 7);
    let [line, bar, list_area, below] =
        inner.layout(&Layout::vertical([Length(1), Length(2), Min(1), Length(details)]));
    typed_after("search ", model, query, theme, frame, line);
    let at = found.get(cursor).copied();
    frame.render_widget(Text::from(self::bar(&pieces, at, bar.width.into(), theme).to_vec()), bar);
    if found.is_empty() {
        frame.render_widget(theme.line(Role::Dim, "no match"), list_area);
    }
    let widths = [Length(2), Length(TIMES), Fill(1)];
    let columns = cell_columns(list_area, &widths);
    list(frame, theme, list_area, (cursor, found.len()), (None, &widths), |i| {
        row(model, &pieces[found[i]], columns[2], theme)
    });
    let words = at.and_then(|index| pieces[index].run).map(words).unwrap_or_default();
    let caption = Paragraph::new(text::clean(&words)).wrap(Wrap { trim: true });
    frame.render_widget(caption.block(rule(theme)), below);
}

/// The clip from left to right: a cell is heavy where it is captioned, upright at a cut, and marked within the selected segment.
/// Below it the times of the beginning, of the selected segment, and of the end.
fn bar(pieces: &[Piece<'_>], selected: Option<usize>, columns: usize, theme: &Theme) -> [Line<'static>; 2] {
    let (Some(first), Some(last)) = (pieces.first(), pieces.last()) else { return Default::default() };
    let (start, seconds) = (first.span.start, last.span.end - first.span.start);
    let time = |cell: usize| start + seconds * cell as f64 / columns.max(1) as f64;
    let at = |seconds: f64| pieces.iter().rposition(|piece| piece.span.start <= seconds).unwrap_or_default();
    let mut before = 0;
    let cell = |cell: usize| {
        let index = at(time(cell + 1).min(last.span.end - seconds * 1e-9));
        let is_cut = std::mem::replace(&mut before, index) != index;
        let is_done = pieces[index].run.is_some_and(|run| run.log.whole().is_finished());
        let (sign, role) = match (is_cut, is_done) {
            (true, _) => ("┃", Role::Dim),
            (false, true) => ("━", Role::Gauge),
            (false, false) => ("─", Role::GaugeRest),
        };
        theme.span(if selected == Some(index) { Role::Accent } else { role }, sign)
    };
    let cells: Vec<_> = (0..columns).map(cell).collect();
    let (from, to) = (clock(start), clock(last.span.end));
    let here = selected.map(|index| pieces[index].span.to_string()).unwrap_or_default();
    let free = columns.saturating_sub(text::width(&from) + text::width(&here) + text::width(&to));
    let times = [
        theme.span(Role::Dim, from),
        Span::raw(" ".repeat(free / 2)),
        theme.span(Role::Accent, here),
        Span::raw(" ".repeat(free - free / 2)),
        theme.span(Role::Dim, to),
    ];
    [Line::from(cells), Line::from(times.to_vec())]
}

fn row(model: &Model, piece: &Piece<'_>, columns: usize, theme: &Theme) -> Row<'static> {
    let (sign, role) = match piece.run.map(|run| run.activity()) {
        None => (" ", Role::Dim),
        Some(Activity::Done(StopReason::Cancelled) | Activity::CutOff) => ("-", Role::Warn),
        Some(Activity::Failed(_)) => ("✗", Role::Bad),
        Some(Activity::Done(_)) => ("✓", Role::Good),
        Some(_) => (SPINNER[model.tick % SPINNER.len()], Role::Accent),
    };
    let words = piece.run.map(words).unwrap_or_default();
    Row::new([
        Cell::new(sign).style(theme.style(role)),
        Cell::new(piece.span.to_string()).style(theme.style(Role::Dim)),
        Cell::new(text::fit(&text::clean_line(&words), columns)),
    ])
}

/// The caption of a run, or why it has none.
fn words(run: &Run) -> String {
    let log = run.log.whole();
    match (log.failure(), log.edited()) {
        (Some(failure), _) => failure.error.clone(),
        (None, Some(edited)) => format!("(edited) {}", edited.trim()),
        (None, None) => log.shown().trim().to_owned(),
    }
}
