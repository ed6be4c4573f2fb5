//! The race: what every method had written at one time, all on one clock.

use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    text::{Line, Span},
    widgets::Paragraph,
};

use super::{compare::lane_runs, player, sign, track, window_top, wrap::wrap};
use crate::tui::{
    Theme,
    model::{
        Model,
        compare::{Comparison, Lane},
        run::Run,
    },
    text,
    theme::Role,
};

pub(super) fn draw(model: &Model, comparison: &Comparison, theme: &Theme, frame: &mut Frame<'_>, area: Rect) {
    let Some(clock) = comparison.player.as_ref().filter(|_| area.height >= 4) else {
        frame.render_widget(Line::styled("no run has ended yet", theme.style(Role::Dim)), area);
        return;
    };
    let lanes: Vec<(&Lane, &Run)> = lane_runs(model, comparison)
        .into_iter()
        .filter_map(|one| Some((one.lane, one.run.filter(|r| r.is_over() && !r.log.steps().is_empty())?)))
        .collect();
    let [above, _, bar] =
        area.layout(&Layout::vertical([Constraint::Min(0), Constraint::Length(1), Constraint::Length(1)]));
    frame.render_widget(player::bar(clock, theme, area.width.into()), bar);
    // If not all lanes fit, those around the cursor are shown.
    let each = (usize::from(above.height) / lanes.len().max(1)).clamp(2, 8);
    let fit = (usize::from(above.height) / each).max(1);
    let top = window_top(comparison.cursor.min(lanes.len()), lanes.len(), fit);
    let areas = Layout::vertical(vec![Constraint::Length(each as u16); fit]).split(above);
    for ((lane, run), area) in lanes.into_iter().skip(top).zip(areas.iter()) {
        let mut lines = vec![head(lane, run, clock.at, theme, area.width.into())];
        lines.extend(tail(run, run.tokens_at(clock.at), theme, area.width.into(), each - 1));
        frame.render_widget(Paragraph::new(lines), *area);
    }
}

/// The lane's name, its progress, and its time at the end.
fn head(lane: &Lane, run: &Run, now_ms: f64, theme: &Theme, columns: usize) -> Line<'static> {
    let (now, all) = (run.tokens_at(now_ms), run.log.token_count());
    let end = run.step_times().last().copied().unwrap_or(0.0);
    let over = now_ms >= end;
    let name = (columns / 3).clamp(10, 30);
    let right = match over {
        true => format!("  {all:>4} tokens in {:>5.2} s", end / 1000.0),
        false => format!("  {now:>4} of {all} tokens     "),
    };
    let cells = columns.saturating_sub(name + 5 + text::width(&right));
    let [mut done, rest] = track(now as f64 / all.max(1) as f64, cells, theme);
    if over {
        done.style = theme.style(Role::Good);
    }
    Line::from(vec![
        Span::styled(text::pad(&lane.label, name), theme.style(Role::Title)),
        Span::raw(" "),
        sign(lane.lossless, theme),
        Span::raw(" "),
        done,
        rest,
        Span::styled(right, theme.style(if over { Role::Good } else { Role::Dim })),
    ])
}

/// The last lines of what was written.
fn tail(run: &Run, tokens: usize, theme: &Theme, columns: usize, rows: usize) -> Vec<Line<'static>> {
    let written = run.log.chunks().iter().take_while(|chunk| chunk.tokens.end <= tokens);
    let mut lines = wrap(written.map(|c| (c.text.as_str(), theme.verdict(c.verdict))), columns);
    lines.split_off(lines.len().saturating_sub(rows))
}
