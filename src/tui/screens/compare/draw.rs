//! The table of a comparison, and the words in which the selected caption differs from the target's own.

use ratatui::layout::Constraint::{Fill, Length, Min};
use ratatui::layout::{Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Row};

use super::lanes::{LaneRun, baseline, fastest, lane_runs};
use super::{chart, race};
use crate::look::{Role, Theme};
use crate::tui::model::compare::{Below, Comparison, first_difference, words};
use crate::tui::model::{Activity, Model, Run};
use crate::tui::text;
use crate::tui::widgets::{Frame, SPINNER, dialog, fitting, list, number, popup, rule, sign, widest, wrap};
use specreel_client::present::statistics::{Column, DECODE, LOOSENED, Measures, OUTPUT, Output, SPEED, TAU};
use specreel_record::{Change, StopReason};

/// The columns besides the method, and their places by worth: if not all fit, the last are left out.
const COLUMNS: [Column; 5] = [SPEED, DECODE, TAU, LOOSENED, OUTPUT];
const WORTH: [usize; 5] = [1, 4, 3, 2, 0];

pub(super) fn draw(model: &Model, theme: &Theme, frame: &mut Frame<'_>) {
    let Some(comparison) = &model.runs.comparison else { return };
    let whole = frame.area();
    let title = text::fit(&comparison.title, usize::from(whole.width).saturating_sub(14));
    let title = theme.line(Role::Dim, format!(" {title} ")).right_aligned();
    let inner = popup(frame, theme, whole.width, whole.height, dialog("Compare", theme).title_top(title));
    let n = comparison.lanes.len() as u16;
    let rows = (inner.height / 2).saturating_sub(1).clamp(2, n.max(2));
    let [above, line, below] = inner.layout(&Layout::vertical([Length(rows + 1), Length(1), Min(0)]));
    table(model, comparison, theme, frame, above);
    let mut tabs = rule(theme).title_top(tabs(comparison.below, theme));
    if comparison.below == Below::Words && inner.width > 70 {
        tabs = tabs.title_top(changes(theme).right_aligned());
    }
    frame.render_widget(tabs, line);
    match comparison.below {
        Below::Words => {
            let lines = difference(model, comparison, theme, below.width.into());
            frame.render_widget(Paragraph::new(lines), below);
        }
        Below::Race => race::draw(model, comparison, theme, frame, below),
        Below::Chart => chart::draw(model, comparison, theme, frame, below),
    }
}

fn tabs(below: Below, theme: &Theme) -> Line<'static> {
    let name = |(one, name): (Below, &'static str)| {
        let current = theme.style(Role::Accent).patch(theme.style(Role::Title));
        Span::styled(format!(" {name} "), if one == below { current } else { theme.style(Role::Dim) })
    };
    let border = || theme.span(Role::Border, "──");
    Below::ALL.into_iter().flat_map(|tab| [border(), name(tab)]).collect()
}

fn table(model: &Model, comparison: &Comparison, theme: &Theme, frame: &mut Frame<'_>, area: Rect) {
    let lanes = lane_runs(model, comparison);
    let fastest = fastest(&lanes);
    let plain = baseline(model, comparison);
    let cells: Vec<Option<[String; 5]>> = (lanes.iter())
        .map(|one| {
            let run = one.run.filter(|run| run.stats().steps > 0)?;
            let measures = measures(run, one, plain);
            Some(COLUMNS.map(|column| (column.cell)(&measures)))
        })
        .collect();
    let width = |(at, column): (usize, &Column)| {
        widest(column.title, cells.iter().flatten().map(|cells| cells[at].as_str()))
    };
    let widths: Vec<usize> = COLUMNS.iter().enumerate().map(width).collect();
    // Names are whole, unless there are only names.
    let names = widest("method", lanes.iter().map(|one| one.lane.label.as_str()));
    let room = usize::from(area.width);
    let kept = fitting(&widths, &WORTH, room.saturating_sub(names + 8));
    // The two signs and the spaces between the columns are not the name's.
    let numbers: usize = kept.iter().map(|at| widths[*at] + 2).sum();
    let name_room = room.saturating_sub(numbers + 6);
    let mut constraints = vec![Length(1), Fill(1), Length(1)];
    constraints.extend(kept.iter().map(|at| Length(widths[*at] as u16)));
    let first = [Cell::new(""), Cell::new("method"), Cell::new("")];
    let header = Row::new(first.into_iter().chain(kept.iter().map(|at| number(COLUMNS[*at].title))));
    list(frame, theme, area, (comparison.cursor, lanes.len()), (Some(header), &constraints), |i| {
        let one = &lanes[i];
        let mut row = vec![
            Cell::new(state_sign(one.run, model.look.tick, theme)),
            Cell::new(text::fit(&one.lane.label, name_room)),
            Cell::new(sign(one.lane.lossless, theme)),
        ];
        match &cells[i] {
            Some(cells) => row.extend(kept.iter().map(|at| {
                let cell = number(cells[*at].as_str());
                let is_fastest = fastest == Some(i) && COLUMNS[*at].title == DECODE.title;
                if is_fastest { cell.style(theme.style(Role::Good)) } else { cell }
            })),
            None => {
                let words = text::fit(&waiting_for(model, one), numbers.saturating_sub(2));
                let words = theme.span(Role::Dim, words);
                row.push(Cell::new(words).column_span(kept.len().max(1) as u16));
            }
        }
        Row::new(row)
    });
}

/// Why a lane has no numbers yet, or never will.
fn waiting_for(model: &Model, one: &LaneRun<'_>) -> String {
    match one.run.map(Run::activity) {
        Some(Activity::Failed(failure)) => failure.error.clone(),
        Some(Activity::Done(_)) => "cancelled".into(),
        Some(Activity::Working { stage, .. }) => stage.doing().into(),
        Some(_) => "starting".into(),
        None if model.queue.runs.iter().any(|w| w.request.run == one.lane.run) => "queued".into(),
        None => "did not run".into(),
    }
}

fn state_sign(run: Option<&Run>, tick: usize, theme: &Theme) -> Span<'static> {
    let (sign, role) = match run.map(Run::activity) {
        None => ("·", Role::Dim),
        Some(Activity::Done(StopReason::Cancelled)) => ("–", Role::Warn),
        Some(Activity::Done(_) | Activity::CutOff) => ("●", Role::Good),
        Some(Activity::Failed(_)) => ("✗", Role::Bad),
        Some(_) => (SPINNER[tick % SPINNER.len()], Role::Accent),
    };
    theme.span(role, sign)
}

fn measures(run: &Run, one: &LaneRun<'_>, plain: Option<&Run>) -> Measures {
    let output = plain
        .filter(|p| p.id() != run.id())
        .map(|plain| first_difference(run, plain).map_or(Output::Identical, Output::DiffersAt));
    Measures {
        decode: one.speedup,
        interval: one.interval,
        tokens_per_second: one.tokens_per_second,
        output: output.unwrap_or(if run.autoregressive { Output::Baseline } else { Output::Unknown }),
        ..Measures::of_stats(&one.lane.label, one.lane.lossless, run.log.whole().stats())
    }
}

/// The selected caption with its differences from the autoregressive one: deleted words struck out, inserted ones underlined.
fn difference(model: &Model, comparison: &Comparison, theme: &Theme, columns: usize) -> Vec<Line<'static>> {
    let lane = comparison.lanes.get(comparison.cursor);
    let Some(run) = lane.and_then(|l| model.runs.get(l.run)) else {
        return vec![theme.line(Role::Dim, "not run yet")];
    };
    let plain = baseline(model, comparison);
    let Some(plain) = plain.filter(|p| p.id() != run.id() && p.has_ended() && run.has_ended()) else {
        let chunks = run.log.chunks().iter();
        return wrap(chunks.map(|chunk| (chunk.text.as_str(), theme.verdict(chunk.verdict))), columns);
    };
    let edits = words(plain, run);
    if edits.iter().all(|e| e.change == Change::Same) {
        let mut lines = wrap([(run.log.shown().trim(), Style::new())], columns);
        lines.push(Line::default());
        lines.push(theme.line(Role::Good, "identical to the autoregressive caption"));
        return lines;
    }
    let [deleted, inserted] = change_styles(theme);
    let mut shown: Vec<(String, Style)> = Vec::new();
    for edit in edits {
        if edit.spaced && !shown.is_empty() {
            shown.push((" ".into(), Style::new()));
        }
        let style = match edit.change {
            Change::Same => Style::new(),
            Change::Deleted => deleted,
            Change::Inserted => inserted,
        };
        shown.push((edit.text, style));
    }
    wrap(shown.iter().map(|(t, s)| (t.as_str(), *s)), columns)
}

/// The styles of words that only the autoregressive caption has, and of those that only the method's has.
fn change_styles(theme: &Theme) -> [Style; 2] {
    let deleted = theme.style(Role::Bad).remove_modifier(Modifier::BOLD).add_modifier(Modifier::CROSSED_OUT);
    [deleted, theme.style(Role::Accent).add_modifier(Modifier::UNDERLINED | Modifier::BOLD)]
}

fn changes(theme: &Theme) -> Line<'static> {
    let [deleted, inserted] = change_styles(theme);
    let border = theme.style(Role::Border);
    Line::from(vec![
        Span::raw(" "),
        Span::styled("only autoregressive", deleted),
        Span::styled(" ── ", border),
        Span::styled("only this method", inserted),
        Span::styled(" ──", border),
    ])
}
