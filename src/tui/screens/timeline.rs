//! The timeline: a bar of the shown clip with its segments, and a list of their captions with times. Segments
//! are shown, captioned again, or edited from here.

use ratatui::layout::Constraint::{Fill, Length, Min};
use ratatui::layout::Layout;
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Cell, Paragraph, Row, Wrap};

use super::caption_editor::{self, Edited};
use crate::look::{Action, KeyContext, Role, Theme};
use crate::tui::model::timeline::{Piece, found, pieces};
use crate::tui::model::{Activity, Keys, Model, Run, Screen, Tone, Turn};
use crate::tui::update::{batch, models, panes, runs};
use crate::tui::widgets::{Frame, SPINNER, cell_columns, dialog, list, popup, rule, typed_after};
use crate::tui::{pane::Pane, picker::Picker, text};
use specreel_client::present::formats::plural;
use specreel_record::{StopReason, clock};

const COLUMNS: u16 = 104;
/// Columns of the times of a segment.
const TIMES: u16 = 19;

/// The segments of the shown clip, with a search in their captions.
#[derive(Debug)]
pub(crate) struct Timeline {
    picker: Picker,
}

pub(crate) fn open(model: &mut Model) {
    match model.runs.shown().and_then(|run| run.subject.segment) {
        Some(segment) => model.screens.open(Timeline { picker: Picker::at(segment.index) }),
        None => model.note(Tone::Info, "this clip is not captioned in segments: L captions it so"),
    }
}

impl Timeline {
    /// The run of the segment under the cursor.
    fn picked(&self, model: &Model) -> Option<u64> {
        let index = *found(model, self.picker.query()).get(self.picker.cursor)?;
        pieces(model).get(index)?.run.map(Run::id)
    }

    /// Caption the segment under the cursor again, after those that wait.
    fn again(&self, model: &mut Model) {
        let Some(id) = self.picked(model) else {
            return model.note(Tone::Info, "this segment is not captioned yet");
        };
        let Some(run) = model.runs.get(id).filter(|run| run.has_ended()) else {
            return model.note(Tone::Info, "this segment is being captioned");
        };
        let (subject, was) = (run.subject.clone(), run.subject.segment);
        if model.queue.runs.iter().any(|waiting| waiting.run.subject.segment == was) {
            return model.note(Tone::Info, "this segment waits for its turn");
        }
        if batch::is_in_the_way(model) || models::are_in_the_way(model) {
            return;
        }
        let Some(method) = runs::method_to_run(model) else { return };
        let waiting = runs::waiting(model, subject, method);
        model.queue.runs.push_back(waiting);
        runs::start_waiting(model)
    }

    /// Edit the caption of the segment under the cursor.
    fn edit(&self, model: &mut Model) -> Turn {
        let run = self.picked(model).and_then(|id| model.runs.get(id));
        let Some(run) = run.filter(|run| run.log.whole().is_finished()) else {
            model.note(Tone::Info, "this segment has no caption that can be edited");
            return Turn::Stay;
        };
        let (edited, caption) = (Edited::Segment(run.id()), run.log.whole().text().trim().to_owned());
        caption_editor::open(model, edited, &caption)
    }
}

impl Screen for Timeline {
    fn keys(&self, _model: &Model) -> Keys {
        use Action::{Again, Back, Choose, ClearLine, Down, EditCaption};
        Keys::new(KeyContext::Timeline, "show", &[Choose, Again, EditCaption, Down, Back, ClearLine])
    }

    /// Show the caption of the segment under the cursor.
    fn choose(&mut self, model: &mut Model) -> Turn {
        let run = self.picked(model);
        match run.and_then(|id| model.runs.place(id)) {
            Some(index) => {
                model.focus = Pane::Caption;
                panes::show_run(model, index);
            }
            None => model.note(Tone::Info, "this segment is not captioned yet"),
        }
        Turn::Leave
    }

    fn act(&mut self, action: Action, model: &mut Model) -> Turn {
        match action {
            Action::Again => self.again(model),
            Action::EditCaption => return self.edit(model),
            _ => return Turn::Pass,
        }
        Turn::Stay
    }

    fn picker(&mut self) -> Option<&mut Picker> {
        Some(&mut self.picker)
    }

    fn rows(&self, model: &Model) -> usize {
        found(model, self.picker.query()).len()
    }

    fn draw(&self, model: &Model, theme: &Theme, frame: &mut Frame<'_>) {
        let pieces = pieces(model);
        let found = found(model, self.picker.query());
        let done =
            pieces.iter().filter(|piece| piece.run.is_some_and(|run| run.log.whole().is_finished())).count();
        let title = format!("Timeline · {done} of {}", plural(pieces.len() as u64, "segment"));
        let inner = popup(frame, theme, COLUMNS, pieces.len() as u16 + 12, dialog(&title, theme));
        let details = (inner.height / 3).clamp(3, 7);
        let [line, bar, list_area, below] =
            inner.layout(&Layout::vertical([Length(1), Length(2), Min(1), Length(details)]));
        typed_after("search ", &self.picker.line, theme, frame, line);
        let at = found.get(self.picker.cursor).copied();
        frame.render_widget(Text::from(bar_of(&pieces, at, bar.width.into(), theme).to_vec()), bar);
        if found.is_empty() {
            frame.render_widget(theme.line(Role::Dim, "no match"), list_area);
        }
        let widths = [Length(2), Length(TIMES), Fill(1)];
        let columns = cell_columns(list_area, &widths);
        list(frame, theme, list_area, (self.picker.cursor, found.len()), (None, &widths), |i| {
            row(model, &pieces[found[i]], columns[2], theme)
        });
        let words = at.and_then(|index| pieces[index].run).map(words).unwrap_or_default();
        let caption = Paragraph::new(text::clean(&words)).wrap(Wrap { trim: true });
        frame.render_widget(caption.block(rule(theme)), below);
    }
}

/// The clip from left to right: a cell is heavy where it is captioned, upright at a cut, and marked within the selected segment.
/// Below it the times of the beginning, of the selected segment, and of the end.
fn bar_of(
    pieces: &[Piece<'_>],
    selected: Option<usize>,
    columns: usize,
    theme: &Theme,
) -> [Line<'static>; 2] {
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
        Some(_) => (SPINNER[model.look.tick % SPINNER.len()], Role::Accent),
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
