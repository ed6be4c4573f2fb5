//! The meters pane: the shown run in numbers and bars.

use ratatui::layout::Constraint::{Length, Min};
use ratatui::layout::{Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Padding, Paragraph, Sparkline};

use crate::look::{Role, Theme};
use crate::tui::model::{Activity, EngineState, Model, Run, run::choice};
use crate::tui::view::{has_focus, history, is_wide, legend, passage};
use crate::tui::widgets::{Frame, hang, panel, title, track, wrap};
use crate::tui::{pane::Pane, text};
use specreel_client::present::formats::{NOTHING, bytes, duration, rate, rough, speedup};
use specreel_client::present::statistics::{NOT_MEASURED, basis, in_passes, verification};
use specreel_record::{Stage, Step, StopReason, log::Speed};

pub(super) const NAME: usize = 10;

/// Some lines, with a sparkline over the first from a column on.
struct Group {
    /// The groups of the highest rank are dropped first if the pane is low; rank 0 stays.
    rank: u8,
    lines: Vec<Line<'static>>,
    chart: Option<(usize, Sparkline<'static>)>,
}

/// Draw the pane, with the legend of verdicts on its border if no other pane has it.
pub(super) fn draw(model: &Model, has_legend: bool, theme: &Theme, frame: &mut Frame<'_>, area: Rect) {
    let focused = has_focus(model, Pane::Meters);
    let mut block = panel(title("Meters", focused, theme), focused, theme).padding(Padding::horizontal(1));
    let words = match model.runs.all.len() {
        0 | 1 => String::new(),
        n => format!(" run {} of {n} ", model.runs.shown + 1),
    };
    let room = usize::from(area.width).saturating_sub(14 + text::width(&words));
    let legend = model.runs.shown().filter(|_| has_legend).map(|run| legend::line(run, theme, room));
    let mut right = legend.unwrap_or_default();
    right.push_span(theme.span(Role::Dim, words));
    block = block.title_top(right.right_aligned());
    let inner = frame.border(block, area);
    let Some(run) = model.runs.shown() else {
        // Where the caption pane is not on the screen, this one greets.
        let lines = match passage::greeting(model).filter(|_| has_legend) {
            Some(greeting) => wrap([(greeting.as_str(), theme.style(Role::Accent))], inner.width.into()),
            None => meanings(theme, inner.width.into()),
        };
        return frame.render_widget(Paragraph::new(lines), inner);
    };
    let meters = Meters { model, run, theme, columns: inner.width.into(), rows: inner.height.into() };
    let groups = meters.groups();
    let heights = groups.iter().map(|g| Length(g.lines.len() as u16));
    let areas = Layout::vertical(heights.chain([Min(0)])).split(inner);
    for (group, area) in groups.into_iter().zip(areas.iter()) {
        frame.render_widget(Paragraph::new(group.lines), *area);
        if let Some((from, chart)) = group.chart {
            let [_, right] = area.layout(&Layout::horizontal([Length(from as u16), Min(0)]));
            frame.render_widget(chart.style(theme.style(Role::Gauge)), right);
        }
    }
    // A blank line above the table, if there is room.
    let rest = areas.last().copied().unwrap_or_default();
    let gap = u16::from(rest.height > 3);
    history::draw(model, run, theme, frame, Rect { y: rest.y + gap, height: rest.height - gap, ..rest });
}

/// What the numbers of a run will say.
fn meanings(theme: &Theme, columns: usize) -> Vec<Line<'static>> {
    let (dim, value) = (theme.style(Role::Dim), theme.style(Role::Title));
    let numbers = [
        ("accepted", "drafted tokens that became text"),
        ("τ", "tokens of each pass of the target"),
        ("speedup", "over the target alone, measured within the run"),
        ("time", "reading the video, drafting, verifying"),
    ];
    numbers
        .iter()
        .flat_map(|(name, about)| hang(Span::styled(*name, value), NAME, (about, dim), columns))
        .collect()
}

struct Meters<'a> {
    model: &'a Model,
    run: &'a Run,
    theme: &'a Theme,
    columns: usize,
    rows: usize,
}

impl Meters<'_> {
    fn groups(&self) -> Vec<Group> {
        let group = |rank, lines| Group { rank, lines, chart: None };
        if self.rows < 6 {
            let mut groups = vec![group(0, vec![self.state()]), self.steps(), group(0, vec![self.speedup()])];
            groups.truncate(self.rows);
            return groups;
        }
        let mut groups = vec![
            group(0, vec![self.state()]),
            group(3, history::segments(self.model, self.run, self.theme, self.columns)),
            group(1, vec![self.tau()]),
            self.steps(),
            group(1, vec![self.speedup()]),
            group(2, self.verified()),
            self.speed(),
            group(5, vec![self.verdicts()]),
            group(6, self.legend()),
            group(6, if self.rows >= 16 { self.time_bars() } else { vec![self.time_line()] }),
            group(7, vec![self.visual()]),
            group(8, self.memory()),
            group(4, self.notes()),
        ];
        let mut used: usize = groups.iter().map(|g| g.lines.len()).sum();
        while used > self.rows {
            let Some(last) = (0..groups.len()).max_by_key(|i| groups[*i].rank) else { break };
            used -= groups.remove(last).lines.len();
        }
        groups
    }

    fn dim(&self) -> Style {
        self.theme.style(Role::Dim)
    }

    fn line(&self, name: &str, spans: impl IntoIterator<Item = Span<'static>>) -> Line<'static> {
        let name = Span::styled(text::pad(name, NAME), self.dim());
        std::iter::once(name).chain(spans).collect()
    }

    /// A name and words, truncated to the pane.
    fn words(&self, name: &str, words: &str) -> Line<'static> {
        self.line(name, [Span::raw(text::fit(words, self.columns.saturating_sub(NAME)))])
    }

    /// A name of which nothing is known yet.
    fn nothing(&self, name: &str) -> Line<'static> {
        self.line(name, [Span::styled(NOTHING, self.dim())])
    }

    fn state(&self) -> Line<'static> {
        let (words, role) = match self.run.activity() {
            Activity::Sent => ("waiting for the engine".to_owned(), Role::Dim),
            Activity::Working { stage: stage @ Stage::Generate, .. }
            | Activity::Working { stage, done: 0, total: 0, .. } => (stage.doing().to_owned(), Role::Accent),
            Activity::Working { stage, done, total: 0, .. } => {
                (format!("{} {done}", stage.doing()), Role::Accent)
            }
            Activity::Working { stage, done, total, .. } => {
                (format!("{} {done}/{total}", stage.doing()), Role::Accent)
            }
            Activity::Cancelling => ("cancelling".into(), Role::Warn),
            Activity::Done(StopReason::Eos) => ("done".into(), Role::Good),
            Activity::Done(StopReason::Stop) => ("done, at a stop text".into(), Role::Good),
            Activity::Done(StopReason::Length) => ("done, at the token limit".into(), Role::Good),
            Activity::Done(StopReason::Loop) => ("done, in a loop".into(), Role::Warn),
            Activity::Done(StopReason::Cancelled) => ("cancelled".into(), Role::Warn),
            Activity::Failed(_) => ("failed".into(), Role::Bad),
            Activity::CutOff => ("cut off".into(), Role::Warn),
        };
        let stats = self.run.stats();
        let mut line = self.line("state", [self.theme.span(role, words)]);
        let right = match self.rows < 6 {
            true => format!("τ {:.2}  {} tok/s", stats.tau, rate(stats.tokens_per_second)),
            false => in_passes(stats),
        };
        let fill = self.columns.saturating_sub(line.width() + text::width(&right));
        if fill > 0 && stats.steps > 0 {
            line.extend([Span::raw(" ".repeat(fill)), Span::styled(right, self.dim())]);
        }
        line
    }

    fn speed(&self) -> Group {
        let stats = self.run.stats();
        if stats.steps == 0 {
            return Group { rank: 0, lines: vec![self.nothing("speed")], chart: None };
        }
        let speed = format!("{:>7}", rate(stats.speed()));
        let line = self.line("speed", [self.theme.span(Role::Title, speed), Span::raw(" tok/s")]);
        let rates = rates(self.run.log.steps(), self.columns.saturating_sub(NAME + 17).min(48));
        let chart = (!rates.is_empty()).then(|| (line.width() + 3, Sparkline::default().data(rates)));
        Group { rank: 0, lines: vec![line], chart }
    }

    fn tau(&self) -> Line<'static> {
        let stats = self.run.stats();
        if stats.steps == 0 {
            return self.nothing("tau");
        }
        let title = self.theme.style(Role::Title);
        self.line(
            "tau",
            [
                Span::styled(format!("{:>7.2}", stats.tau), title),
                Span::raw(" accepted   "),
                Span::styled(format!("{:.2}", stats.emitted_per_step), title),
                Span::raw(" emitted per step"),
            ],
        )
    }

    /// A bar for each of the last steps: accepted of judged drafts.
    fn steps(&self) -> Group {
        let stats = self.run.stats();
        let share = 100.0 * stats.accepted as f64 / stats.judged.max(1) as f64;
        let mut words = match stats.judged {
            0 if stats.steps == 0 => String::new(),
            0 => "nothing drafted".to_owned(),
            n => format!("{share:3.0} % of {n} drafts"),
        };
        if let Some((speedup, _)) = self.known_speedup().filter(|_| self.rows < 6) {
            words += &format!("  {speedup}");
        }
        let line = self.line("accepted", [Span::styled(words, self.dim())]);
        let from = line.width() + 2;
        let steps = self.run.log.steps();
        let steps = &steps[steps.len().saturating_sub(self.columns.saturating_sub(from))..];
        // No bar for a step of which nothing was accepted, but a dot.
        let bar = |step: &Step| {
            let accepted = step.accepted_freely();
            (accepted > 0).then(|| (1000 * accepted / step.judged_freely().max(1)) as u64)
        };
        let chart = Sparkline::default()
            .data(steps.iter().map(bar).collect::<Vec<_>>())
            .max(1000)
            .absent_value_symbol("·")
            .absent_value_style(self.dim());
        Group { rank: 2, lines: vec![line], chart: Some((from, chart)) }
    }

    /// The speedup in a few words, and whether it is a rough figure; `None` if it is not known.
    fn known_speedup(&self) -> Option<(String, bool)> {
        if let Some(known) = &self.run.stats().speedup {
            return Some((speedup(known.decode, Some(&known.interval)), known.is_rough()));
        }
        // While it runs, from the passes of the target alone that were timed between its steps.
        let (so_far, interval) = self.run.log.speedup_so_far().filter(|_| !self.run.autoregressive)?;
        Some((speedup(so_far, Some(&interval)), false))
    }

    /// True if the run has ended, and its speed will be measured.
    fn awaits_speed(&self) -> bool {
        let has_ended = matches!(self.run.activity(), Activity::Done(reason) if reason.is_end());
        let is_own = !self.run.replayed && self.model.config.server.is_none();
        has_ended && is_own && self.run.log.speed() == Speed::Unmeasured
    }

    fn speedup(&self) -> Line<'static> {
        let measuring = self.run.log.speed() == Speed::Measuring;
        let Some((words, is_rough)) = self.known_speedup() else {
            let words = match self.run.autoregressive {
                true => "this is the baseline",
                false if self.run.is_over() && measuring => "measuring …",
                false if self.run.is_over() && self.awaits_speed() => "measured when the engine is idle",
                false if self.run.is_over() => NOT_MEASURED,
                false => "measured after the run",
            };
            return self.line("speedup", [Span::styled(words, self.dim())]);
        };
        let known = self.run.stats().speedup.as_ref();
        let role = if known.is_some_and(|s| s.decode < 1.0) { Role::Warn } else { Role::Good };
        let style = match is_rough {
            true => self.dim(),
            false => self.theme.style(role).patch(self.theme.style(Role::Title)),
        };
        let mut line = self.line("speedup", [Span::styled(words, style), Span::raw(" decode")]);
        // What it is measured with matters more than the end-to-end speedup, which is known only when all stages are.
        let whole = match known.filter(|_| self.run.is_over() && self.columns > 52) {
            Some(known) => format!("  {} end to end", rough(known.end_to_end)),
            None => String::new(),
        };
        let room = self.columns.saturating_sub(line.width());
        let basis = match known {
            _ if measuring => "measuring".into(),
            Some(known) => basis(known),
            None => "so far".into(),
        };
        let name = known.map_or("autoregressive", |known| &known.baseline.name);
        let variants = [
            (whole.as_str(), format!("  vs {name}, {basis}")),
            ("", format!("  vs {name}, {basis}")),
            ("", format!("  {basis}")),
        ];
        let fits = |(whole, against): &(&str, String)| text::width(whole) + text::width(against) <= room;
        if let Some((whole, against)) = variants.iter().find(|variant| fits(variant)) {
            line.extend([Span::raw((*whole).to_owned()), Span::styled(against.clone(), self.dim())]);
        }
        line
    }

    /// How the run compares with autoregressive decoding, if it was verified.
    fn verified(&self) -> Vec<Line<'static>> {
        let Some(found) = self.run.log.verification() else { return Vec::new() };
        let role = match found.equality.equal {
            true => Role::Good,
            false if found.is_broken() => Role::Bad,
            false => Role::Text,
        };
        let name = Span::styled("verified", self.dim());
        hang(name, NAME, (&verification(found), self.theme.style(role)), self.columns)
    }

    /// One bar of all tokens, divided by verdict.
    fn verdicts(&self) -> Line<'static> {
        let counts = &self.run.stats().verdicts;
        if counts.total() == 0 {
            return self.nothing("verdicts");
        }
        let total = counts.total().max(1) as usize;
        let room = self.columns.saturating_sub(NAME + 17);
        let (mut spans, mut used, mut sum) = (Vec::new(), 0, 0);
        for (verdict, n) in counts.iter() {
            sum += n;
            let end = sum as usize * room / total;
            let block = match (verdict.is_strict(), verdict.is_accepted_draft()) {
                (true, true) => "█",
                (true, false) => "▓",
                (false, _) => "▒",
            };
            let style = Style { add_modifier: Modifier::empty(), ..self.theme.verdict(verdict) };
            spans.push(Span::styled(block.repeat(end - used), style));
            used = end;
        }
        let share = 100.0 * self.run.stats().loosened_share();
        spans.push(Span::styled(format!(" {share:5.1} % loosened"), self.dim()));
        self.line("verdicts", spans)
    }

    /// All verdicts with their counts, where the caption's border is too short for them.
    fn legend(&self) -> Vec<Line<'static>> {
        match is_wide(self.model.size) {
            true => legend::lines(self.run, self.theme, NAME, self.columns),
            false => Vec::new(),
        }
    }

    /// The stages that took time, in milliseconds. Those before the first token are known at the run's end.
    fn stages(&self) -> Vec<(&'static str, f64)> {
        let t = &self.run.stats().timings;
        let mut stages = vec![
            ("video", t.decode_video_ms),
            ("vision", t.encode_target_ms + t.encode_drafter_ms),
            ("prefill", t.prefill_target_ms + t.prefill_drafter_ms + t.select_ms),
            ("draft", t.draft_ms),
            ("verify", t.verify_ms),
            ("other", t.other_ms),
        ];
        stages.retain(|(_, ms)| *ms > 0.0);
        stages
    }

    fn time_bars(&self) -> Vec<Line<'static>> {
        let stages = self.stages();
        if stages.is_empty() {
            return vec![self.nothing("time")];
        }
        let most = stages.iter().map(|(_, ms)| *ms).fold(0.0, f64::max);
        let cells = self.columns.saturating_sub(NAME + 18).min(40);
        let line = |(i, (name, ms)): (usize, &(&'static str, f64))| {
            let [bar, _] = track(ms / most, cells, self.theme);
            let (name, time) = (text::pad(name, 8), format!("{:>8}  ", duration(*ms)));
            self.line(
                if i == 0 { "time" } else { "" },
                [Span::styled(name, self.dim()), Span::raw(time), bar],
            )
        };
        stages.iter().enumerate().map(line).collect()
    }

    fn time_line(&self) -> Line<'static> {
        let stages = self.stages();
        if stages.is_empty() {
            return self.nothing("time");
        }
        let stages: Vec<_> =
            stages.into_iter().map(|(name, ms)| format!("{name} {}", duration(ms))).collect();
        self.words("time", &stages.join(" · "))
    }

    /// The peak memory of the process; nothing if the run has not ended or the system does not say.
    fn memory(&self) -> Vec<Line<'static>> {
        let peak = Some(self.run.stats().peak_memory_bytes).filter(|peak| *peak > 0);
        peak.map(|peak| self.words("memory", &format!("{} peak", bytes(peak)))).into_iter().collect()
    }

    fn visual(&self) -> Line<'static> {
        let Some(seen) = self.run.log.prompt() else { return self.nothing("visual") };
        let mut words = format!("{} tokens from {} frames", seen.visual_tokens, seen.frames.len());
        if let Some(kept) = seen.kept.as_ref().map(Vec::len) {
            words.push_str(&format!(" · drafter sees {kept}"));
        }
        if seen.reused {
            words.push_str(" · prefill reused");
        }
        self.words("visual", &words)
    }

    fn notes(&self) -> Vec<Line<'static>> {
        let of_engine = match &self.model.models.engine {
            EngineState::Ready(ready) if !self.run.replayed => &ready.notes[..],
            _ => &[],
        };
        let notes = of_engine.iter().chain(self.run.log.notes());
        let warn = self.theme.style(Role::Warn);
        let lines = |note: &String| match choice(note) {
            Some(chosen) => vec![self.words("chosen", chosen)],
            None => hang(Span::styled("note", self.dim()), NAME, (note, warn), self.columns),
        };
        notes.flat_map(lines).collect()
    }
}

/// The speed over the run, in steps gathered into at most `columns` groups.
fn rates(steps: &[Step], columns: usize) -> Vec<u64> {
    if steps.len() < 2 || columns == 0 {
        return Vec::new();
    }
    let rate = |steps: &[Step]| {
        let tokens: usize = steps.iter().map(|s| s.tokens.len()).sum();
        let ms: f64 = steps.iter().map(|s| s.draft_ms + s.verify_ms + s.other_ms).sum();
        if ms > 0.0 { (1e6 * tokens as f64 / ms) as u64 } else { 0 }
    };
    steps.chunks(steps.len().div_ceil(columns)).map(rate).collect()
}
