//! The comparison: a table that fills in while the methods run, and below it the differing words, the race, or a chart of
//! speedup against quality.

use super::status::SPINNER;
use super::*;
use crate::tui::model::compare::{Below, Comparison, Lane, first_difference, words};
use specreel_client::{
    chart::{Plot, Point},
    present::statistics::{Column, DECODE, LOOSENED, Measures, OUTPUT, Output, SPEED, TAU},
};
use specreel_record::{
    Change, Interval,
    speedup::{plain_speed, winner},
};

/// Shares of loosened tokens that differ by less are equal.
const FLAT: f64 = 0.005;
/// The columns besides the method, and their places by worth: if not all fit, the last are left out.
const COLUMNS: [Column; 5] = [SPEED, DECODE, TAU, LOOSENED, OUTPUT];
const WORTH: [usize; 5] = [1, 4, 3, 2, 0];

pub(super) fn draw(model: &Model, theme: &Theme, frame: &mut Frame<'_>) {
    let Some(comparison) = &model.comparison else { return };
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
        Below::Chart => plot(model, comparison, theme, frame, below),
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

pub(super) struct LaneRun<'a> {
    pub lane: &'a Lane,
    pub run: Option<&'a Run>,
    pub speedup: Option<f64>,
    /// The interval of the speedup; the baseline's is 1.
    pub interval: Option<Interval>,
    /// Decode speed that agrees with the speedup.
    pub tokens_per_second: Option<f64>,
}

/// The lanes with their runs and their speed relative to the baseline's, as measured in pairs.
pub(super) fn lane_runs<'a>(model: &'a Model, comparison: &'a Comparison) -> Vec<LaneRun<'a>> {
    let runs = comparison.lanes.iter().filter_map(|lane| model.runs.get(lane.run));
    let plain = plain_speed(runs.map(|run| run.log.whole().stats()));
    let of = |lane: &'a Lane| {
        let run = model.runs.get(lane.run);
        let stats = run.map(|run| run.log.whole().stats());
        let is_baseline = run.is_some_and(|run| run.autoregressive);
        let (speedup, interval) = match is_baseline {
            true => (Some(1.0), Some(Interval::ONE)),
            false => stats
                .and_then(|stats| stats.speedup.as_ref())
                .map(|told| (told.decode, told.interval))
                .unzip(),
        };
        let speed = stats.map(|stats| stats.speed_beside(plain, is_baseline)).filter(|speed| *speed > 0.0);
        LaneRun { lane, run, speedup, interval, tokens_per_second: speed }
    };
    comparison.lanes.iter().map(of).collect()
}

pub(super) fn fastest(lanes: &[LaneRun<'_>]) -> Option<usize> {
    winner(&lanes.iter().map(|one| one.interval).collect::<Vec<_>>())
}

fn baseline<'a>(model: &'a Model, comparison: &Comparison) -> Option<&'a Run> {
    model.runs.get(comparison.baseline()?.run)
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
            Cell::new(state_sign(one.run, model.tick, theme)),
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
        None if model.queue.iter().any(|w| w.request.run == one.lane.run) => "queued".into(),
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

/// The chart: speedup against the share of tokens that the target would have written itself. A sweep over which that share does
/// not change shows what does: speedup and accepted drafts against the parameter.
fn plot(model: &Model, comparison: &Comparison, theme: &Theme, frame: &mut Frame<'_>, area: Rect) {
    let lanes = lane_runs(model, comparison);
    let over = |one: &&LaneRun<'_>| one.run.is_some_and(|run| run.has_ended() && run.stats().emitted > 0);
    let shares = lanes.iter().filter(over).filter_map(|one| Some(one.run?.stats().loosened_share()));
    let (least, most) = shares.fold((1.0_f64, 0.0_f64), |(least, most), s| (least.min(s), most.max(s)));
    match comparison.swept {
        Some(parameter) if most - least < FLAT => {
            curves::draw(model, &lanes, parameter, theme, frame, area);
        }
        _ => front(model, &lanes, theme, frame, area),
    }
}

/// Speedup against strict tokens, with the Pareto front.
fn front(model: &Model, lanes: &[LaneRun<'_>], theme: &Theme, frame: &mut Frame<'_>, area: Rect) {
    let points = lanes.iter().filter_map(|one| {
        let run = one.run.filter(|r| r.has_ended() && r.stats().emitted > 0)?;
        Some((one.speedup?, 100.0 * (1.0 - run.stats().loosened_share()), one.lane.label.clone()))
    });
    let plot = Plot::new("", "speedup", "% strict tokens", points).y_at_most(100.0);
    if plot.points().is_empty() {
        frame.render_widget(theme.line(Role::Dim, "no run has ended yet"), area);
        return;
    }
    let names =
        plot.points().iter().map(|p| text::width(&p.label)).max().unwrap_or(0).clamp(8, 28) as u16 + 2;
    let names = if area.width >= names + 46 { names } else { 0 };
    let [left, right] = area.layout(&Layout::horizontal([Min(0), Length(names)]).spacing(2));
    let style = |point: &Point| theme.style(if point.front { Role::Accent } else { Role::Dim });
    let points: Vec<_> =
        plot.symbols().map(|(symbol, point)| (symbol, style(point), [(point.x, point.y)])).collect();
    let stairs = plot.stairs();
    let front = Dataset::default()
        .data(&stairs)
        .graph_type(GraphType::Line)
        .marker(line_marker(model.config.ascii))
        .style(theme.style(Role::GaugeRest));
    let marks = points
        .iter()
        .map(|(symbol, style, at)| Dataset::default().data(at).marker(Marker::Custom(*symbol)).style(*style));
    let (across, up) = plot.scales();
    let datasets = std::iter::once(front).chain(marks).collect();
    chart(datasets, (&across, &plot.x), (&up, &plot.y), None, theme, frame, left);
    let names = plot.symbols().map(|(symbol, point)| {
        Line::styled(text::fit(&format!("{symbol} {}", point.label), right.width.into()), style(point))
    });
    frame.render_widget(Paragraph::new(names.collect::<Vec<_>>()), right);
}
