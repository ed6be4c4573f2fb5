//! What stands beside a run: the speed of its steps, the other pieces of its clip, the runs on the same clip and prompt.

use ratatui::text::{Line, Span};

use super::{bars, meters::NAME};
use crate::{
    record::{Stats, Step, StopReason},
    tui::{
        Theme,
        model::{
            Model,
            run::{Run, RunState},
        },
        text,
        theme::Role,
    },
};

/// The speed over the run as one row of blocks: steps are gathered into at most `columns` groups.
pub(super) fn rates(steps: &[Step], columns: usize) -> String {
    if steps.len() < 2 || columns == 0 {
        return String::new();
    }
    let group = steps.len().div_ceil(columns);
    let rate = |steps: &[Step]| {
        let tokens: usize = steps.iter().map(|s| s.tokens.len()).sum();
        let ms: f64 = steps.iter().map(|s| s.draft_ms + s.verify_ms + s.other_ms).sum();
        if ms > 0.0 { tokens as f64 / ms } else { 0.0 }
    };
    let rates: Vec<f64> = steps.chunks(group).map(rate).collect();
    let most = rates.iter().copied().fold(0.0, f64::max);
    rates.iter().flat_map(|r| bars::column(if most > 0.0 { r / most } else { 0.0 }, 1)).collect()
}

/// Of a clip in pieces: which one this is, and the account of all.
pub(super) fn pieces(model: &Model, run: &Run, theme: &Theme, columns: usize) -> Vec<Line<'static>> {
    let (Some(segment), Some(span)) = (run.about.segment, run.about.span) else {
        return Vec::new();
    };
    let runs = model.runs.together(run);
    let mut whole = Stats::default();
    runs.iter().for_each(|run| whole.add_run(&run.stats));
    let done = |run: &&&Run| matches!(run.state, RunState::Done(StopReason::Eos | StopReason::Length));
    let done = runs.iter().filter(done).count();
    let place = format!("{} of {} · {span}", segment.index + 1, segment.count);
    let mut words = format!(
        "{done} of {} done · {} tokens · {:.1} tok/s",
        segment.count, whole.emitted, whole.tokens_per_second
    );
    if whole.judged > 0 {
        words += &format!(" · tau {:.2}", whole.tau);
    }
    let line = |name: &str, words: &str, role| {
        let name = Span::styled(text::pad(name, NAME), theme.style(Role::Dim));
        Line::from(vec![
            name,
            Span::styled(text::fit(words, columns.saturating_sub(NAME)), theme.style(role)),
        ])
    };
    vec![line("piece", &place, Role::Accent), line("pieces", &words, Role::Text)]
}

/// A table of the runs on the same clip and prompt, newest first.
pub(super) fn lines(
    model: &Model,
    run: &Run,
    theme: &Theme,
    columns: usize,
    rows: usize,
) -> Vec<Line<'static>> {
    let runs: Vec<_> = model.runs.comparable(run).collect();
    // A single run compares with nothing.
    if runs.len() < 2 || rows < 3 {
        return Vec::new();
    }
    let dim = theme.style(Role::Dim);
    let name = columns.saturating_sub(2 + 9 + 7 + 9 + 8).min(34);
    let mut out = Vec::new();
    if rows > 3 {
        out.push(Line::default());
    }
    out.push(Line::styled(
        format!(
            "  {}{:>9}{:>7}{:>9}{:>8}",
            text::pad("runs on this clip", name),
            "tok/s",
            "tau",
            "speedup",
            "loose"
        ),
        dim,
    ));
    let best = runs.iter().map(|r| r.stats.tokens_per_second).fold(0.0, f64::max);
    for other in runs.into_iter().rev().take(rows - out.len()) {
        let here = other.id == run.id;
        let stats = &other.stats;
        let speedup = match &stats.speedup {
            Some(s) => Some(s.decode),
            None if other.about.autoregressive => None,
            None => {
                model.runs.measured_baseline(other).map(|b| stats.tokens_per_second / b.tokens_per_second)
            }
        };
        let speedup = speedup.map_or_else(|| "–".into(), |s| format!("{s:.2}×"));
        let fastest = stats.tokens_per_second >= best && best > 0.0;
        let mut spans = vec![
            Span::styled(if here { "▸ " } else { "  " }, theme.style(Role::Accent)),
            Span::styled(
                text::pad(&format!("{}{}", other.about.label, ending(other)), name),
                if here { theme.style(Role::Title) } else { theme.style(Role::Text) },
            ),
        ];
        let speed = format!("{:>9.1}", stats.tokens_per_second);
        spans.push(if fastest { Span::styled(speed, theme.style(Role::Good)) } else { Span::raw(speed) });
        let loose = match other.about.lossless {
            true => "=".to_owned(),
            false => format!("{:.0} %", 100.0 * stats.loosened_share()),
        };
        let tau = if other.about.autoregressive { "–".into() } else { format!("{:.2}", stats.tau) };
        spans.push(Span::raw(format!("{tau:>7}{speedup:>9}{loose:>8}")));
        out.push(Line::from(spans));
    }
    out
}

/// A word on runs that did not end by themselves.
fn ending(run: &Run) -> &'static str {
    match run.state {
        RunState::Done(_) | RunState::CutOff if run.about.replayed => " (replay)",
        RunState::Done(StopReason::Cancelled) => " (cancelled)",
        RunState::Failed(_) => " (failed)",
        RunState::Done(_) | RunState::CutOff => "",
        _ => " …",
    }
}
