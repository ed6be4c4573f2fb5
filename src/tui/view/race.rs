//! The race: what every method had written at one time, all on one clock.

use ratatui::{
    Frame,
    layout::Rect,
    text::{Line, Span},
    widgets::Paragraph,
};

use super::{caption, compare::shown, player, wrap::wrap};
use crate::tui::{
    Theme,
    model::{
        Model,
        compare::{Comparison, step_times, tokens_at},
        player::Player,
        run::Run,
    },
    text,
    theme::Role,
};

pub(super) fn draw(model: &Model, comparison: &Comparison, theme: &Theme, frame: &mut Frame<'_>, area: Rect) {
    let dim = theme.style(Role::Dim);
    let Some(clock) = comparison.player.as_ref().filter(|_| area.height >= 4) else {
        frame.render_widget(Line::styled("The race begins when a run has ended.", dim), area);
        return;
    };
    let lanes: Vec<_> = shown(model, comparison)
        .into_iter()
        .filter_map(|one| one.run.filter(|r| r.is_over() && !r.steps.is_empty()).map(|run| (one.lane, run)))
        .collect();
    let bar = Rect { y: area.bottom() - 1, height: 1, ..area };
    frame.render_widget(player::bar(clock, theme, area.width.into()), bar);
    let room = usize::from(area.height) - 2;
    // Each lane has a line of its own and what is left for its words; lanes that do not fit stand with the cursor.
    let each = (room / lanes.len().max(1)).clamp(2, 8);
    let fit = (room / each).max(1);
    let top = super::window_top(comparison.cursor.min(lanes.len()), lanes.len(), fit);
    for (i, (lane, run)) in lanes.iter().skip(top).take(fit).enumerate() {
        let at = Rect { y: area.y + (i * each) as u16, height: each as u16, ..area };
        let mut lines = vec![head(&lane.label, lane.lossless, run, clock, theme, area.width.into())];
        lines.extend(tail(run, tokens_at(run, clock.at), theme, area.width.into(), each - 1));
        frame.render_widget(Paragraph::new(lines), at);
    }
}

/// The lane's name, how far it is, and when it ended.
fn head(
    label: &str,
    lossless: bool,
    run: &Run,
    clock: &Player,
    theme: &Theme,
    columns: usize,
) -> Line<'static> {
    let dim = theme.style(Role::Dim);
    let (now, all) = (tokens_at(run, clock.at), run.token_count());
    let end = step_times(run).last().copied().unwrap_or(0.0);
    let name = (columns / 3).clamp(10, 30);
    let right = match clock.at >= end {
        true => format!("{all:>4} tokens in {:>5.2} s", end / 1000.0),
        false => format!("{now:>4} of {all} tokens     "),
    };
    let cells = columns.saturating_sub(name + 4 + text::width(&right) + 2);
    let done = (now * cells).checked_div(all).unwrap_or(cells);
    let mark = if lossless { " = " } else { " ≈ " };
    let over = clock.at >= end;
    Line::from(vec![
        Span::styled(text::pad(label, name), theme.style(Role::Title)),
        Span::styled(mark, caption::mark_style(lossless, theme)),
        Span::styled("━".repeat(done), theme.style(if over { Role::Good } else { Role::Gauge })),
        Span::styled("─".repeat(cells - done), theme.style(Role::GaugeRest)),
        Span::styled(format!("  {right}"), if over { theme.style(Role::Good) } else { dim }),
    ])
}

/// The last lines of what was written.
fn tail(run: &Run, tokens: usize, theme: &Theme, columns: usize, rows: usize) -> Vec<Line<'static>> {
    let written = run.pieces.iter().take_while(|p| p.tokens.end <= tokens);
    let lines = wrap(written.map(|p| (p.text.as_str(), theme.verdict(p.verdict))), columns);
    let from = lines.len().saturating_sub(rows);
    lines.into_iter().skip(from).collect()
}
