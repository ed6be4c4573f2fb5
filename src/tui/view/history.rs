//! The other runs beside the shown one in the meters: the segments of its clip, and the runs on the same clip and prompt.

use ratatui::{
    Frame,
    layout::{Constraint, Rect},
    text::{Line, Span},
    widgets::{Cell, Row, Table},
};

use super::{DECODE_WIDTH, meters::NAME, number};
use crate::{
    present::formats::rate,
    present::statistics::{Column, DECODE, LOOSENED, Measures, Output, SPEED, TAU},
    record::{
        Interval, Stats, StopReason,
        speedup::{plain_speed, winner},
    },
    tui::{
        Theme,
        model::{
            Model,
            run::{Activity, Run},
        },
        text,
        theme::Role,
    },
};

/// If the clip is captioned in segments: which one this is, and the statistics of all.
pub(super) fn segments(model: &Model, run: &Run, theme: &Theme, columns: usize) -> Vec<Line<'static>> {
    let (Some(segment), Some(span)) = (run.subject.segment, run.subject.span) else {
        return Vec::new();
    };
    let runs = model.runs.together(run);
    let mut whole = Stats::default();
    runs.iter().for_each(|run| whole.add_run(run.stats()));
    let done = runs.iter().filter(|run| run.log.is_finished()).count();
    let place = format!("{} of {} · {span}", segment.index + 1, segment.count);
    let mut words = format!(
        "{done} of {} done · {} tokens · {} tok/s",
        segment.count,
        whole.emitted,
        rate(whole.tokens_per_second)
    );
    if whole.judged > 0 {
        words += &format!(" · tau {:.2}", whole.tau);
    }
    let line = |name: &str, words: &str, role| {
        let words = text::fit(words, columns.saturating_sub(NAME));
        let name = Span::styled(text::pad(name, NAME), theme.style(Role::Dim));
        Line::from(vec![name, Span::styled(words, theme.style(role))])
    };
    vec![line("segment", &place, Role::Accent), line("all", &words, Role::Text)]
}

/// A table of the runs on the same clip and prompt, newest first. A single run is not listed.
pub(super) fn draw(model: &Model, run: &Run, theme: &Theme, frame: &mut Frame<'_>, area: Rect) {
    let runs: Vec<_> = model.runs.comparable(run).collect();
    if runs.len() < 2 || area.height < 3 {
        return;
    }
    let fastest = fastest(&runs);
    let plain = plain_speed(runs.iter().map(|run| run.stats()));
    let header = [
        Cell::new("  runs on this clip"),
        number(SPEED.title),
        number(TAU.title),
        number(DECODE.title),
        number(LOOSENED.title),
    ];
    let rows = runs.into_iter().rev().take(area.height.into()).map(|other| {
        let (here, stats) = (other.id() == run.id(), other.stats());
        let mut measures = Measures::of_stats(&other.label, other.lossless, stats);
        if measures.decode.is_none() {
            let so_far = other.log.speedup_so_far().filter(|_| !other.autoregressive);
            (measures.decode, measures.interval) = so_far.unzip();
        }
        if other.autoregressive {
            (measures.decode, measures.output) = (Some(1.0), Output::Baseline);
        }
        measures.tokens_per_second =
            Some(stats.speed_beside(plain, other.autoregressive)).filter(|speed| *speed > 0.0);
        let cell = |column: Column| number((column.cell)(&measures));
        let decode = cell(DECODE);
        let is_fastest = fastest == Some(other.id());
        let name = Line::from(vec![
            Span::styled(if here { "▸ " } else { "  " }, theme.style(Role::Accent)),
            Span::styled(
                format!("{}{}", other.label, ending(other)),
                theme.style(if here { Role::Title } else { Role::Text }),
            ),
        ]);
        Row::new([
            Cell::new(name),
            cell(SPEED),
            cell(TAU),
            if is_fastest { decode.style(theme.style(Role::Good)) } else { decode },
            if other.lossless { number("=") } else { cell(LOOSENED) },
        ])
    });
    let widths = [
        Constraint::Max(36),
        Constraint::Length(8),
        Constraint::Length(5),
        Constraint::Length(DECODE_WIDTH),
        Constraint::Length(8),
    ];
    let table =
        Table::new(rows, widths).column_spacing(2).header(Row::new(header).style(theme.style(Role::Dim)));
    frame.render_widget(table, area);
}

/// The run that is faster than all others here, if the measurements say so. Runs that were not finished do not take part.
fn fastest(runs: &[&Run]) -> Option<u64> {
    let finished: Vec<&&Run> = runs.iter().filter(|run| run.log.is_finished()).collect();
    let interval = |run: &&&Run| match run.autoregressive {
        true => Some(Interval::ONE),
        false => Some(run.stats().speedup.as_ref()?.interval),
    };
    let at = winner(&finished.iter().map(interval).collect::<Vec<_>>())?;
    Some(finished[at].id())
}

/// How a run ended, if not by itself.
fn ending(run: &Run) -> &'static str {
    match run.activity() {
        Activity::Done(_) | Activity::CutOff if run.replayed => " (replay)",
        Activity::Done(StopReason::Cancelled) => " (cancelled)",
        Activity::Failed(_) => " (failed)",
        Activity::Done(_) | Activity::CutOff => "",
        _ => " …",
    }
}
