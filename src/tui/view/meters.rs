//! The meters pane: what the shown run costs and gives, as numbers and bars.

use ratatui::{
    Frame,
    layout::Rect,
    style::Style,
    text::{Line, Span},
    widgets::Paragraph,
};

use super::{bars, has_focus, history, panel, title};
use crate::{
    record::{Baseline, BaselineKind, Speedup, Stage, Stats, Timings, units},
    tui::{
        Theme,
        model::{
            Model, Pane,
            run::{Run, RunState},
        },
        text,
        theme::Role,
    },
};

/// Columns of the names on the left.
pub(super) const NAME: usize = 10;

/// One named group of lines; `rank` says which go first when the pane is low (0 never goes).
struct Group {
    rank: u8,
    lines: Vec<Line<'static>>,
}

pub(super) fn draw(model: &Model, theme: &Theme, frame: &mut Frame<'_>, area: Rect) {
    let focused = has_focus(model, Pane::Meters);
    let mut block = panel(title("Meters", focused, theme), focused, theme);
    if model.runs.all.len() > 1 {
        let words = format!(" run {} of {} ", model.runs.shown + 1, model.runs.all.len());
        block = block.title_top(Line::styled(words, theme.style(Role::Dim)).right_aligned());
    }
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let inner = Rect { x: inner.x + 1, width: inner.width.saturating_sub(2), ..inner };
    let Some(run) = model.runs.shown() else {
        let words = "Speed, acceptance and time stand here while a caption is written.";
        let lines = super::wrap::wrap([(words, theme.style(Role::Dim))], inner.width.into());
        frame.render_widget(Paragraph::new(lines), inner);
        return;
    };
    let pane = Pen { model, run, theme, columns: inner.width.into(), rows: inner.height.into() };
    frame.render_widget(Paragraph::new(pane.lines()), inner);
}

struct Pen<'a> {
    model: &'a Model,
    run: &'a Run,
    theme: &'a Theme,
    columns: usize,
    rows: usize,
}

impl Pen<'_> {
    fn lines(&self) -> Vec<Line<'static>> {
        if self.rows < 6 {
            return self.strip();
        }
        let tall = self.rows >= 17;
        let mut groups = vec![
            Group { rank: 0, lines: vec![self.state()] },
            Group { rank: 3, lines: history::pieces(self.model, self.run, self.theme, self.columns) },
            Group { rank: 0, lines: vec![self.speed()] },
            Group { rank: 1, lines: vec![self.tau()] },
            Group { rank: 2, lines: self.steps(if self.rows >= 12 { 2 } else { 1 }) },
            Group { rank: 1, lines: vec![self.speedup()] },
            Group { rank: 4, lines: vec![self.verdicts()] },
            Group { rank: 5, lines: if tall { self.time_bars() } else { vec![self.time_line()] } },
            Group { rank: 6, lines: vec![self.visual()] },
            Group { rank: 7, lines: self.memory() },
        ];
        let mut used: usize = groups.iter().map(|g| g.lines.len()).sum();
        while used > self.rows {
            let Some(last) = groups.iter().enumerate().max_by_key(|(_, g)| g.rank).map(|(i, _)| i) else {
                break;
            };
            used -= groups[last].lines.len();
            groups.remove(last);
        }
        let mut lines: Vec<_> = groups.into_iter().flat_map(|g| g.lines).collect();
        let room = self.rows.saturating_sub(lines.len());
        lines.extend(history::lines(self.model, self.run, self.theme, self.columns, room));
        lines
    }

    /// Two or three lines for low screens.
    fn strip(&self) -> Vec<Line<'static>> {
        let mut lines = vec![self.state()];
        if self.rows >= 2 {
            let mut line = self.steps(1).remove(0);
            if let Some(speedup) = self.known_speedup() {
                line.push_span(Span::styled(
                    format!("  {:.2}×", speedup.decode),
                    self.theme.style(Role::Accent),
                ));
            }
            let bar = line;
            lines.push(bar);
        }
        if self.rows >= 3 {
            lines.push(self.speedup());
        }
        lines
    }

    fn dim(&self) -> Style {
        self.theme.style(Role::Dim)
    }

    fn name(&self, name: &str) -> Span<'static> {
        Span::styled(text::pad(name, NAME), self.dim())
    }

    fn state(&self) -> Line<'static> {
        let (words, role) = match &self.run.state {
            RunState::Sent => ("waiting for the engine".to_owned(), Role::Dim),
            RunState::Working { stage: stage @ Stage::Generate, .. } => {
                (stage.doing().to_owned(), Role::Accent)
            }
            RunState::Working { stage, done, total: 0 } if *done == 0 => {
                (stage.doing().to_owned(), Role::Accent)
            }
            RunState::Working { stage, done, total: 0 } => {
                (format!("{} {done}", stage.doing()), Role::Accent)
            }
            RunState::Working { stage, done, total } => {
                (format!("{} {done}/{total}", stage.doing()), Role::Accent)
            }
            RunState::Cancelling => ("cancelling".into(), Role::Warn),
            RunState::Done(reason) => match reason {
                crate::record::StopReason::Eos => ("done".into(), Role::Good),
                crate::record::StopReason::Length => ("done, at the token limit".into(), Role::Good),
                crate::record::StopReason::Cancelled => ("cancelled".into(), Role::Warn),
            },
            RunState::Failed(_) => ("failed".into(), Role::Bad),
            RunState::CutOff => ("cut off".into(), Role::Warn),
        };
        let stats = &self.run.stats;
        let mut line = Line::from(vec![self.name("state"), Span::styled(words, self.theme.style(role))]);
        let right = if self.rows < 6 {
            format!("{:.1} tok/s  τ {:.2}", stats.tokens_per_second, stats.tau)
        } else {
            format!("{} {}", stats.steps, if stats.steps == 1 { "step" } else { "steps" })
        };
        let fill = self.columns.saturating_sub(line.width() + text::width(&right));
        if fill > 0 && stats.steps > 0 {
            line.push_span(Span::raw(" ".repeat(fill)));
            line.push_span(Span::styled(right, self.dim()));
        }
        line
    }

    fn speed(&self) -> Line<'static> {
        let stats = &self.run.stats;
        if stats.steps == 0 {
            return Line::from(vec![self.name("speed"), Span::styled("      –", self.dim())]);
        }
        let mut line = Line::from(vec![
            self.name("speed"),
            Span::styled(format!("{:>7.1}", stats.tokens_per_second), self.theme.style(Role::Title)),
            Span::raw(" tok/s"),
        ]);
        let rates = history::rates(&self.run.steps, self.columns.saturating_sub(NAME + 17).min(48));
        line.push_span(Span::styled(format!("   {rates}"), self.theme.style(Role::Gauge)));
        line
    }

    fn tau(&self) -> Line<'static> {
        let stats = &self.run.stats;
        if stats.steps == 0 {
            return Line::from(vec![self.name("tau"), Span::styled("      –", self.dim())]);
        }
        Line::from(vec![
            self.name("tau"),
            Span::styled(format!("{:>7.2}", stats.tau), self.theme.style(Role::Title)),
            Span::raw(" accepted a step   "),
            Span::styled(format!("{:.2}", stats.emitted_per_step), self.theme.style(Role::Title)),
            Span::raw(" emitted a step"),
        ])
    }

    /// A bar for every step, the newest on the right: accepted of judged.
    fn steps(&self, rows: usize) -> Vec<Line<'static>> {
        let stats = &self.run.stats;
        let share = if stats.judged > 0 { 100.0 * stats.accepted as f64 / stats.judged as f64 } else { 0.0 };
        let words = match stats.judged {
            0 if stats.steps == 0 => String::new(),
            0 => " nothing drafted".to_owned(),
            n => format!(" {share:3.0} % of {n} drafts"),
        };
        let room = self.columns.saturating_sub(NAME + text::width(&words) + 1);
        let steps = &self.run.steps[self.run.steps.len().saturating_sub(room)..];
        let mut lines: Vec<Vec<Span<'static>>> = vec![Vec::new(); rows];
        for step in steps {
            let share = if step.judged > 0 { step.accepted as f64 / step.judged as f64 } else { 0.0 };
            let bar = bars::column(share, rows);
            for (row, block) in bar.into_iter().enumerate() {
                let lowest = row + 1 == rows;
                lines[row].push(match (lowest, share > 0.0) {
                    (true, false) => Span::styled("·", self.dim()),
                    _ => Span::styled(block, self.theme.style(Role::Gauge)),
                });
            }
        }
        let used = steps.len();
        let mut out = Vec::with_capacity(rows);
        for (row, spans) in lines.into_iter().enumerate() {
            let lowest = row + 1 == rows;
            let mut line = vec![self.name(if row == 0 { "accepted" } else { "a step" })];
            line.extend(spans);
            if lowest {
                line.push(Span::raw(" ".repeat(room.saturating_sub(used))));
                line.push(Span::styled(words.clone(), self.dim()));
            }
            out.push(Line::from(line));
        }
        out
    }

    fn known_speedup(&self) -> Option<Speedup> {
        if let Some(speedup) = &self.run.stats.speedup {
            return Some(speedup.clone());
        }
        if self.run.about.autoregressive {
            return None;
        }
        let baseline = self.model.runs.measured_baseline(self.run)?;
        let mut stats: Stats = self.run.stats.clone();
        let t = &stats.timings;
        let front = t.decode_video_ms + t.encode_target_ms + t.prefill_target_ms;
        let drafter = t.encode_drafter_ms + t.select_ms + t.prefill_drafter_ms;
        stats.set_baseline(baseline, front, drafter);
        stats.speedup
    }

    fn speedup(&self) -> Line<'static> {
        let Some(Speedup { baseline, decode, end_to_end }) = self.known_speedup() else {
            let words = match self.run.about.autoregressive {
                true => "this is the baseline",
                false if self.run.is_over() && self.run.stats.steps > 0 => {
                    "run the autoregressive method once to know"
                }
                false => "–",
            };
            return Line::from(vec![self.name("speedup"), Span::styled(words, self.dim())]);
        };
        let Baseline { name, kind, tokens_per_second } = baseline;
        let kind = match kind {
            BaselineKind::Measured => "measured",
            BaselineKind::Calibrated => "calibrated",
        };
        let role = if decode >= 1.0 { Role::Good } else { Role::Warn };
        let strong = self.theme.style(role).patch(self.theme.style(Role::Title));
        let mut line = Line::from(vec![
            self.name("speedup"),
            Span::styled(format!("{decode:>6.2}×"), strong),
            Span::raw(" decode"),
        ]);
        // End to end is known only when all stages are.
        let all = format!("  {end_to_end:.2}× all");
        let all = if self.run.is_over() && self.columns > 52 { all.as_str() } else { "" };
        let room = self.columns.saturating_sub(line.width());
        // What it is measured against, and how that is known, before how fast it was and the time before the first token.
        let against = [
            format!("{all}  vs {name} {tokens_per_second:.1} tok/s, {kind}"),
            format!("{all}  vs {name}, {kind}"),
            format!("  vs {name}, {kind}"),
            format!("  {kind}"),
        ];
        let fits = against.into_iter().find(|words| text::width(words) <= room).unwrap_or_default();
        let all = if fits.starts_with(all) { all } else { "" };
        line.push_span(Span::raw(all.to_owned()));
        line.push_span(Span::styled(fits[all.len()..].to_owned(), self.dim()));
        line
    }

    /// One bar of all tokens, divided by verdict.
    fn verdicts(&self) -> Line<'static> {
        let counts = &self.run.stats.verdicts;
        if counts.total() == 0 {
            return Line::from(vec![self.name("verdicts"), Span::styled("–", self.dim())]);
        }
        let total = counts.total().max(1);
        let room = self.columns.saturating_sub(NAME + 17);
        let mut line = vec![self.name("verdicts")];
        let mut used = 0;
        let mut sum = 0;
        for (verdict, n) in counts.iter() {
            sum += n;
            let end = (sum as usize * room) / total as usize;
            let block = if verdict.is_strict() {
                if verdict.is_accepted_draft() { "█" } else { "▓" }
            } else {
                "▒"
            };
            let mut style = self.theme.verdict(verdict);
            style.add_modifier = ratatui::style::Modifier::empty();
            line.push(Span::styled(block.repeat(end - used), style));
            used = end;
        }
        line.push(Span::raw(" ".repeat(room - used)));
        let share = 100.0 * self.run.stats.loosened_share();
        line.push(Span::styled(format!(" {share:5.1} % loosened"), self.dim()));
        Line::from(line)
    }

    fn stages(&self) -> Vec<(&'static str, f64)> {
        let Timings {
            decode_video_ms,
            encode_target_ms,
            encode_drafter_ms,
            prefill_target_ms,
            prefill_drafter_ms,
            select_ms,
            draft_ms,
            verify_ms,
            other_ms,
            ..
        } = self.run.stats.timings;
        vec![
            ("video", decode_video_ms),
            ("vision", encode_target_ms + encode_drafter_ms),
            ("prefill", prefill_target_ms + prefill_drafter_ms + select_ms),
            ("draft", draft_ms),
            ("verify", verify_ms),
            ("other", other_ms),
        ]
    }

    fn time_bars(&self) -> Vec<Line<'static>> {
        let mut stages = self.stages();
        // The engine tells the times of the stages before the first token at the run's end.
        stages.retain(|(_, ms)| *ms > 0.0);
        if stages.is_empty() {
            return vec![Line::from(vec![self.name("time"), Span::styled("–", self.dim())])];
        }
        let most = stages.iter().map(|(_, ms)| *ms).fold(0.0, f64::max);
        let cells = self.columns.saturating_sub(NAME + 18).min(40);
        let line = |(i, (name, ms)): (usize, &(&'static str, f64))| {
            let (bar, rest) = bars::across(if most > 0.0 { ms / most } else { 0.0 }, cells);
            Line::from(vec![
                self.name(if i == 0 { "time" } else { "" }),
                Span::styled(text::pad(name, 8), self.dim()),
                Span::styled(bar, self.theme.style(Role::Gauge)),
                Span::raw(" ".repeat(rest)),
                Span::raw(format!("{:>9}", text::millis(*ms))),
            ])
        };
        stages.iter().enumerate().map(line).collect()
    }

    fn time_line(&self) -> Line<'static> {
        let mut line = Line::from(vec![self.name("time")]);
        for (name, ms) in self.stages().into_iter().filter(|(_, ms)| *ms > 0.0) {
            let words = format!("{name} {}", text::millis(ms));
            let gap = if line.spans.len() > 1 { " · " } else { "" };
            if line.width() + gap.len() + words.len() > self.columns {
                break;
            }
            line.push_span(Span::styled(gap, self.dim()));
            line.push_span(Span::raw(words));
        }
        if line.spans.len() == 1 {
            line.push_span(Span::styled("–", self.dim()));
        }
        line
    }

    /// The most memory that the process has taken so far; nothing where the run has not ended or the system does not tell.
    fn memory(&self) -> Vec<Line<'static>> {
        let bytes = self.run.stats.peak_memory_bytes;
        if bytes == 0 {
            return Vec::new();
        }
        let words = format!("{} at most", units::bytes(bytes));
        vec![Line::from(vec![
            self.name("memory"),
            Span::raw(text::fit(&words, self.columns.saturating_sub(NAME))),
        ])]
    }

    fn visual(&self) -> Line<'static> {
        let Some(seen) = &self.run.seen else {
            return Line::from(vec![self.name("visual"), Span::styled("–", self.dim())]);
        };
        let mut words = format!("{} tokens from {} frames", seen.visual_tokens, seen.frames.len());
        if let Some(kept) = seen.kept.as_ref().map(Vec::len) {
            words.push_str(&format!(" · drafter sees {kept}"));
        }
        if seen.reused {
            words.push_str(" · context kept");
        }
        Line::from(vec![self.name("visual"), Span::raw(text::fit(&words, self.columns.saturating_sub(NAME)))])
    }
}
