//! The comparison: a table that fills while the methods run, and below it words, the race, or speed against its cost.

use ratatui::{
    Frame,
    layout::Rect,
    style::{Modifier, Style},
    text::{Line, Span},
    widgets::Paragraph,
};

use super::{caption, popup, race, status::SPINNER, window_top, wrap::wrap};
use crate::{
    chart::{self, Plot},
    record::{Change, StopReason},
    tui::{
        Theme,
        model::{
            Model,
            compare::{Below, Comparison, Lane, first_difference, words},
            run::{Run, RunState},
        },
        text,
        theme::Role,
    },
};

/// A column of the table: heading, width, and its place among those that are left out where there is no room (0 stays).
struct Column {
    head: &'static str,
    width: usize,
    leaves: u8,
}

/// The numbers of a run, in this order.
const COLUMNS: [Column; 5] = [
    Column { head: "tok/s", width: 9, leaves: 1 },
    Column { head: "speedup", width: 9, leaves: 0 },
    Column { head: "tau", width: 7, leaves: 2 },
    Column { head: "loose", width: 7, leaves: 0 },
    Column { head: "differs at", width: 13, leaves: 0 },
];

/// Least room for the names of methods, and what stands around them.
const NAME: usize = 14;
const AROUND: usize = 2 + 3;

/// The columns that fit beside the names.
fn fitting(columns: usize) -> Vec<bool> {
    let mut shown = vec![true; COLUMNS.len()];
    for leaves in 1.. {
        let used: usize = COLUMNS.iter().zip(&shown).filter(|(_, s)| **s).map(|(c, _)| c.width).sum();
        let Some(next) = COLUMNS.iter().position(|c| c.leaves == leaves) else { break };
        if used + NAME + AROUND <= columns {
            break;
        }
        shown[next] = false;
    }
    shown
}

pub(super) fn draw(model: &Model, theme: &Theme, frame: &mut Frame<'_>) {
    let Some(comparison) = &model.comparison else { return };
    let whole = frame.area();
    let (area, inner) = popup(frame, theme, whole.width, whole.height, "Compare");
    let room = usize::from(area.width).saturating_sub(14);
    let head = Line::styled(format!(" {} ", text::fit(&comparison.title, room)), theme.style(Role::Dim));
    frame.render_widget(
        head.right_aligned(),
        Rect { x: area.x + 1, width: area.width - 2, height: 1, ..area },
    );
    let n = comparison.lanes.len();
    let rows = (usize::from(inner.height) / 2).saturating_sub(1).clamp(2, n.max(2));
    let table = Rect { height: (rows + 1) as u16, ..inner };
    frame.render_widget(Paragraph::new(lines(model, comparison, theme, inner.width.into(), rows)), table);
    let rule = Rect { y: table.bottom(), height: 1, ..inner };
    frame.render_widget(tabs(comparison.below, theme, inner.width.into()), rule);
    if comparison.below == Below::Words && inner.width > 70 {
        frame.render_widget(changes(theme).right_aligned(), rule);
    }
    let top = rule.bottom();
    let below = Rect { y: top, height: inner.bottom().saturating_sub(top), ..inner };
    match comparison.below {
        Below::Words => {
            let lines = difference(model, comparison, theme, below.width.into());
            frame.render_widget(Paragraph::new(lines), below);
        }
        Below::Race => race::draw(model, comparison, theme, frame, below),
        Below::Chart => plot(model, comparison, theme, frame, below),
    }
}

/// The names of what can stand below, the one that does standing out.
fn tabs(below: Below, theme: &Theme, columns: usize) -> Line<'static> {
    let mut line = Line::from(Span::styled("── ", theme.style(Role::Border)));
    for (one, name) in Below::ALL {
        let style = theme.style(if one == below { Role::Title } else { Role::Dim });
        let style = if one == below { style.patch(theme.style(Role::Accent)) } else { style };
        line.push_span(Span::styled(name, style));
        line.push_span(Span::styled(" ── ", theme.style(Role::Border)));
    }
    let rest = columns.saturating_sub(line.width());
    line.push_span(Span::styled("─".repeat(rest), theme.style(Role::Border)));
    line
}

/// What a lane's run has to show.
pub(super) struct Shown<'a> {
    pub lane: &'a Lane,
    pub run: Option<&'a Run>,
    pub speedup: Option<f64>,
}

/// The lanes with their runs and their speed against the baseline's.
pub(super) fn shown<'a>(model: &'a Model, comparison: &'a Comparison) -> Vec<Shown<'a>> {
    let plain = comparison.baseline().and_then(|l| model.runs.get(l.run));
    let plain = plain.map(|r| r.stats.tokens_per_second).filter(|s| *s > 0.0);
    let of = |lane: &'a Lane| {
        let run = model.runs.get(lane.run);
        let speed = run.map(|r| r.stats.tokens_per_second).filter(|s| *s > 0.0);
        Shown { lane, run, speedup: speed.zip(plain).map(|(speed, plain)| speed / plain) }
    };
    comparison.lanes.iter().map(of).collect()
}

fn lines(
    model: &Model,
    comparison: &Comparison,
    theme: &Theme,
    columns: usize,
    rows: usize,
) -> Vec<Line<'static>> {
    let dim = theme.style(Role::Dim);
    let fitting = fitting(columns);
    let taken: usize = COLUMNS.iter().zip(&fitting).filter(|(_, fits)| **fits).map(|(c, _)| c.width).sum();
    let name = columns.saturating_sub(taken + AROUND).clamp(8, 36);
    let mut head = format!("  {}   ", text::pad("method", name));
    for (column, _) in COLUMNS.iter().zip(&fitting).filter(|(_, fits)| **fits) {
        head.push_str(&format!("{:>1$}", column.head, column.width));
    }
    let mut out = vec![Line::styled(text::fit(&head, columns), dim)];
    let lanes = shown(model, comparison);
    let best = lanes.iter().filter_map(|l| l.speedup).fold(0.0, f64::max);
    let top = window_top(comparison.cursor, lanes.len(), rows);
    let plain = comparison.baseline().and_then(|l| model.runs.get(l.run));
    for (i, one) in lanes.iter().enumerate().skip(top).take(rows) {
        let here = i == comparison.cursor;
        let of = |style: Style| if here { Style::new() } else { style };
        let (sign, role) = sign(one.run, model.tick);
        let mut spans = vec![
            Span::styled(format!("{sign} "), of(theme.style(role))),
            Span::raw(text::pad(&one.lane.label, name)),
            Span::styled(
                format!(" {} ", if one.lane.lossless { "=" } else { "≈" }),
                of(caption::mark_style(one.lane.lossless, theme)),
            ),
        ];
        match one.run.filter(|r| r.stats.steps > 0) {
            Some(run) => {
                let numbers = numbers(run, one, plain, best, theme, here);
                let shown = numbers.into_iter().zip(&fitting).filter(|(_, fits)| **fits);
                spans.extend(shown.map(|(number, _)| number));
            }
            None => {
                let words = match one.run.map(|r| &r.state) {
                    Some(RunState::Failed(failure)) => failure.error.clone(),
                    Some(RunState::Done(_)) => "cancelled".into(),
                    Some(RunState::Working { stage, .. }) => stage.doing().into(),
                    Some(_) => "starting".into(),
                    None if model.queue.iter().any(|w| w.request.run == one.lane.run) => "waits".into(),
                    None => "did not run".into(),
                };
                spans.push(Span::styled(
                    format!("    {}", text::fit(&words, taken.saturating_sub(4))),
                    of(dim),
                ));
            }
        }
        let mut line = Line::from(spans);
        if here {
            line.push_span(Span::raw(" ".repeat(columns.saturating_sub(line.width()))));
            line = line.style(theme.style(Role::Selection));
        }
        out.push(line);
    }
    out
}

fn sign(run: Option<&Run>, tick: usize) -> (&'static str, Role) {
    match run.map(|r| &r.state) {
        None => ("·", Role::Dim),
        Some(RunState::Done(StopReason::Cancelled)) => ("–", Role::Warn),
        Some(RunState::Done(_) | RunState::CutOff) => ("●", Role::Good),
        Some(RunState::Failed(_)) => ("✗", Role::Bad),
        Some(_) => (SPINNER[tick % SPINNER.len()], Role::Accent),
    }
}

fn numbers(
    run: &Run,
    one: &Shown<'_>,
    plain: Option<&Run>,
    best: f64,
    theme: &Theme,
    here: bool,
) -> [Span<'static>; COLUMNS.len()] {
    let stats = &run.stats;
    let none = || "–".to_owned();
    let speedup = one.speedup.map_or_else(none, |s| format!("{s:.2}×"));
    let fastest = one.speedup.is_some_and(|s| s >= best) && !here;
    let (tau, loose) = match one.lane.autoregressive {
        true => (none(), none()),
        false => (format!("{:.2}", stats.tau), format!("{:.0} %", 100.0 * stats.loosened_share())),
    };
    let differs = match plain.filter(|p| p.id != run.id) {
        None => none(),
        Some(plain) => match first_difference(run, plain) {
            Some(at) => format!("token {}", at + 1),
            None => "nowhere".into(),
        },
    };
    let style = if fastest { theme.style(Role::Good) } else { Style::new() };
    let words = [format!("{:.1}", stats.tokens_per_second), speedup, tau, loose, differs];
    std::array::from_fn(|i| {
        let Column { head, width, .. } = COLUMNS[i];
        Span::styled(format!("{:>width$}", words[i]), if head == "speedup" { style } else { Style::new() })
    })
}

/// The selected caption; against that of the target alone, what was left out is struck and what was put in stands out.
fn difference(model: &Model, comparison: &Comparison, theme: &Theme, columns: usize) -> Vec<Line<'static>> {
    let dim = theme.style(Role::Dim);
    let lane = comparison.lanes.get(comparison.cursor);
    let Some(run) = lane.and_then(|l| model.runs.get(l.run)) else {
        return vec![Line::styled("It has not run yet.", dim)];
    };
    let plain = comparison.baseline().and_then(|l| model.runs.get(l.run));
    let Some(plain) = plain.filter(|p| p.id != run.id && p.is_over() && run.is_over()) else {
        return wrap(run.pieces.iter().map(|p| (p.text.as_str(), theme.verdict(p.verdict))), columns);
    };
    let pieces = words(plain, run);
    if pieces.iter().all(|p| p.change == Change::Same) {
        let mut lines = wrap([(run.text().trim(), Style::new())], columns);
        lines.push(Line::default());
        lines.push(Line::styled("word for word what the target alone writes", theme.style(Role::Good)));
        return lines;
    }
    let (gone, new) = changed(theme);
    let mut shown: Vec<(String, Style)> = Vec::new();
    for piece in &pieces {
        if piece.spaced && !shown.is_empty() {
            shown.push((" ".into(), Style::new()));
        }
        shown.push(match piece.change {
            Change::Same => (piece.text.clone(), Style::new()),
            Change::Deleted => (piece.text.clone(), gone),
            Change::Inserted => (piece.text.clone(), new),
        });
    }
    wrap(shown.iter().map(|(t, s)| (t.as_str(), *s)), columns)
}

/// The styles of the target's own words that the method left out, and of the method's that the target would not have written.
fn changed(theme: &Theme) -> (Style, Style) {
    let gone = theme.style(Role::Bad).remove_modifier(Modifier::BOLD).add_modifier(Modifier::CROSSED_OUT);
    (gone, theme.style(Role::Accent).add_modifier(Modifier::UNDERLINED | Modifier::BOLD))
}

/// What those styles mean.
fn changes(theme: &Theme) -> Line<'static> {
    let ((gone, new), border) = (changed(theme), theme.style(Role::Border));
    Line::from(vec![
        Span::styled(" only the target", gone),
        Span::styled(" ── ", border),
        Span::styled("only this method ", new),
        Span::styled("──", border),
    ])
}

/// Speed against the share of tokens that the target would have written itself.
fn plot(model: &Model, comparison: &Comparison, theme: &Theme, frame: &mut Frame<'_>, area: Rect) {
    let dim = theme.style(Role::Dim);
    let points = shown(model, comparison).into_iter().filter_map(|one| {
        let run = one.run.filter(|r| r.is_over() && r.stats.emitted > 0)?;
        Some((one.speedup?, 100.0 * (1.0 - run.stats.loosened_share()), one.lane.label.clone()))
    });
    let plot = Plot::new("", "speedup", "% of the tokens are the target's own", points).y_at_most(100.0);
    if plot.points().is_empty() {
        frame.render_widget(Line::styled("Points come as the runs end.", dim), area);
        return;
    }
    let names = plot.points().iter().map(|p| text::width(&p.label)).max().unwrap_or(0).clamp(8, 28) + 4;
    let beside = usize::from(area.width) >= names + 46;
    let columns = usize::from(area.width) - if beside { names + 2 } else { 0 };
    let picture = chart::text(&plot, columns.saturating_sub(8), usize::from(area.height).saturating_sub(4));
    let picture: Vec<_> = picture.lines().map(|l| Line::raw(l.to_owned())).collect();
    frame.render_widget(Paragraph::new(picture), Rect { width: columns as u16, ..area });
    if beside {
        let at = Rect { x: area.x + columns as u16 + 2, width: names as u16, ..area };
        let line = |(symbol, point): (char, &chart::Point)| {
            let style = theme.style(if point.front { Role::Accent } else { Role::Dim });
            Line::styled(text::fit(&format!("{symbol} {}", point.label), names), style)
        };
        frame.render_widget(Paragraph::new(plot.symbols().map(line).collect::<Vec<_>>()), at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_leave_in_their_order() {
        assert_eq!(fitting(100), [true; 5]);
        assert_eq!(fitting(64), [true; 5]);
        assert_eq!(fitting(63), [false, true, true, true, true]);
        assert_eq!(fitting(54), [false, true, false, true, true]);
        assert_eq!(fitting(10), [false, true, false, true, true]);
    }
}
