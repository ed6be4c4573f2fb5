//! The other runs next to the shown one in the meters: the segments of its clip, and the runs on the same clip and prompt.

use ratatui::layout::{Constraint::Length, Rect};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Row, Table};

use crate::look::{Role, Theme};
use crate::tui::model::{Activity, Model, Run};
use crate::tui::widgets::{Frame, Target, fitting, hang, number, widest};
use crate::tui::{text, view::meters::NAME};
use specreel_client::present::formats::rate;
use specreel_client::present::statistics::{DECODE, LOOSENED, Measures, Output, SPEED, TAU};
use specreel_record::speedup::{plain_speed, winner};
use specreel_record::{Interval, Stats, StopReason};

const GAP: usize = 2;
/// Columns of the longest name that is not broken.
const NAMES: usize = 34;

/// If the clip is captioned in segments: which one this is, and the statistics of all.
pub(super) fn segments(model: &Model, run: &Run, theme: &Theme, columns: usize) -> Vec<Line<'static>> {
    let (Some(segment), Some(span)) = (run.subject.segment, run.subject.span) else {
        return Vec::new();
    };
    let runs = model.runs.together(run);
    let mut whole = Stats::default();
    runs.iter().for_each(|run| whole.add_run(run.stats()));
    let done = runs.iter().filter(|run| run.log.is_finished()).count();
    let place = format!("{segment} · {span}");
    let mut words = format!(
        "{done} of {} done · {} tokens · {} tok/s",
        if segment.count == 0 { runs.len() } else { segment.count },
        whole.emitted,
        rate(whole.tokens_per_second)
    );
    if whole.judged > 0 {
        words += &format!(" · tau {:.2}", whole.tau);
    }
    let line = |name: &str, words: &str, role| {
        let words = text::fit(words, columns.saturating_sub(NAME));
        let name = theme.span(Role::Dim, text::pad(name, NAME));
        Line::from(vec![name, theme.span(role, words)])
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
    let columns = || [SPEED, TAU, DECODE, LOOSENED];
    let shown: Vec<_> = runs.into_iter().rev().take(area.height.into()).collect();
    let texts = |run: &&Run| {
        let measures = measures(run, plain);
        columns().map(|column| match column.title == LOOSENED.title && run.lossless {
            true => "=".to_owned(),
            false => (column.cell)(&measures),
        })
    };
    let cells: Vec<[String; 4]> = shown.iter().map(texts).collect();
    let names: Vec<_> = shown.iter().map(|run| format!("{}{}", run.label, ending(run))).collect();
    // A name breaks between its words only.
    let word = names.iter().flat_map(|name| name.split(' ')).map(text::width).max().unwrap_or(0);
    let widths: Vec<_> = (columns().iter().enumerate())
        .map(|(at, column)| widest(column.title, cells.iter().map(|cells| cells[at].as_str())))
        .collect();
    let kept = fitting(&widths, &[2, 3, 1, 0], usize::from(area.width).saturating_sub(2 + word + GAP));
    let numbers: usize = kept.iter().map(|at| widths[*at] + GAP).sum();
    let room = usize::from(area.width).saturating_sub(numbers + 2).min(NAMES);
    let pick = |of: [Cell<'static>; 4]| {
        of.into_iter().enumerate().filter(|(at, _)| kept.contains(at)).map(|(_, cell)| cell)
    };
    let title = text::fit("  runs on this clip", room + 2);
    let header = std::iter::once(Cell::new(title)).chain(pick(columns().map(|column| number(column.title))));
    let mut y = area.y + 1;
    let rows = shown.iter().zip(&names).zip(cells).map(|((other, name), cells)| {
        let here = other.id() == run.id();
        let mut numbers = cells.map(number);
        if fastest == Some(other.id()) {
            numbers[2] = numbers[2].clone().style(theme.style(Role::Good));
        }
        let name = theme.span(if here { Role::Title } else { Role::Text }, name.as_str());
        let sign = theme.span(Role::Accent, if here { "▸ " } else { "  " });
        let lines = hang(sign, 2, (&name.content, name.style), room + 2);
        let height = lines.len() as u16;
        let place = Rect { y, height, ..area }.intersection(area);
        if let Some(at) = model.runs.all.iter().position(|run| run.id() == other.id()) {
            frame.mark(place, Target::Row(at));
        }
        y += height;
        Row::new(std::iter::once(Cell::new(lines)).chain(pick(numbers))).height(height)
    });
    let mut constraints = vec![Length(room as u16 + 2)];
    constraints.extend(kept.iter().map(|at| Length(widths[*at] as u16)));
    let rows: Vec<_> = rows.collect();
    let table = Table::new(rows, constraints)
        .column_spacing(GAP as u16)
        .header(Row::new(header).style(theme.style(Role::Dim)));
    frame.render_widget(table, area);
}

/// The cells of a run's row; `plain` is the speed of autoregressive decoding to compare these runs with.
fn measures(run: &Run, plain: Option<f64>) -> Measures {
    let mut measures = Measures::of_stats(&run.label, run.lossless, run.stats());
    if measures.decode.is_none() {
        let so_far = run.log.speedup_so_far().filter(|_| !run.autoregressive);
        (measures.decode, measures.interval) = so_far.unzip();
    }
    if run.autoregressive {
        (measures.decode, measures.output) = (Some(1.0), Output::Baseline);
    }
    measures.tokens_per_second =
        Some(run.stats().speed_beside(plain, run.autoregressive)).filter(|speed| *speed > 0.0);
    measures
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
