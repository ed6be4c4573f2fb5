//! The text of the caption pane: questions, every token in the style of its verdict, and how the run ended; if the clip is
//! captioned in segments, all of them under their times. Laid out as lines, with the lines that scrolling and search need.

use std::borrow::Cow;

use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use crate::look::{Action, ColorDepth, KeyContext, Role, Theme};
use crate::tui::model::{Activity, EngineState, Model, Run, search::matches};
use crate::tui::widgets::{hang, wrap, wrap_placed};
use specreel_client::present::formats::plural;
use specreel_client::present::player::{Fate, Scene};
use specreel_demo as assets;
use specreel_record::{StopReason, Verdict};

/// The token under the cursor, with and without colors.
const CURSOR: Modifier = Modifier::REVERSED;

const EDGE: &str = "╎";

pub(super) type Part<'a> = (Cow<'a, str>, Style);

/// The lines, and which of them show something to scroll to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Laid {
    pub lines: Vec<Line<'static>>,
    /// How many of them fit in the pane.
    pub rows: usize,
    pub cursor: Option<usize>,
    pub segment: Option<usize>,
    /// The lines at which the search matches begin.
    pub found: Vec<usize>,
}

impl Laid {
    pub fn overflow(&self) -> usize {
        self.lines.len().saturating_sub(self.rows)
    }

    /// The first visible line, with `up` lines below the last one.
    pub fn top(&self, up: usize) -> usize {
        self.overflow() - up.min(self.overflow())
    }

    /// How many lines must be below the last visible one to show this line and its neighbors; `None` if it is visible.
    pub fn scroll_to(&self, line: usize, up: usize) -> Option<usize> {
        let (most, top) = (self.overflow(), self.top(up));
        let wanted = if line < top + 1 {
            line.saturating_sub(1)
        } else if line + 2 > top + self.rows {
            (line + 2).saturating_sub(self.rows).min(most)
        } else {
            return None;
        };
        Some(most - wanted.min(most))
    }
}

/// Lay out the pane's text in `columns`.
pub(super) fn lay(model: &Model, theme: &Theme, columns: usize) -> Laid {
    let Some(shown) = model.runs.shown() else {
        return Laid { lines: welcome(model, theme, columns), ..Laid::default() };
    };
    let mut writer = Writer { model, theme, columns, laid: Laid::default() };
    let runs = model.runs.together(shown);
    for (i, run) in runs.iter().enumerate() {
        // What a playback has not come to is not there yet.
        if run.log.is_unseen() && run.id() != shown.id() {
            continue;
        }
        if let Some(span) = run.subject.span.filter(|_| run.group().is_some()) {
            if i > 0 {
                writer.gap();
            }
            let here = run.id() == shown.id();
            if here {
                writer.laid.segment = Some(writer.laid.lines.len());
            }
            let style = theme.style(if here { Role::Accent } else { Role::Dim });
            writer.say(vec![(span.to_string().into(), style)]);
        }
        if i == 0 {
            writer.conversation(run);
        }
        writer.caption(run, run.id() == shown.id());
    }
    if let Some(summary) =
        runs.last().filter(|run| !run.log.is_unseen()).and_then(|run| run.summary.as_deref())
    {
        writer.gap();
        writer.say(vec![("Summary".into(), theme.style(Role::Dim))]);
        writer.say(vec![(summary.into(), Style::new())]);
    }
    let more = model.queue.runs.iter().filter(|w| shown.group().is_some() && w.run.group() == shown.group());
    let more = more.count();
    if more > 0 {
        writer.gap();
        let words = format!("… {}", plural(more as u64, "more segment"));
        writer.say(vec![(words.into(), theme.style(Role::Dim))]);
    }
    writer.laid
}

struct Writer<'a> {
    model: &'a Model,
    theme: &'a Theme,
    columns: usize,
    laid: Laid,
}

impl Writer<'_> {
    fn gap(&mut self) {
        self.laid.lines.push(Line::default());
    }

    /// One paragraph, with search matches highlighted.
    fn say(&mut self, parts: Vec<Part<'_>>) {
        let first = self.laid.lines.len();
        let found = match self.model.caption.search.query.as_str() {
            "" => Vec::new(),
            query => matches(&parts.iter().map(|(text, _)| text.as_ref()).collect::<String>(), query),
        };
        let current = self.model.caption.search.at.checked_sub(self.laid.found.len());
        let parts = if found.is_empty() { parts } else { self.marked(parts, &found, current) };
        let lines = wrap_placed(parts.iter().map(|(text, style)| (text.as_ref(), *style)), self.columns);
        for range in &found {
            let line = lines.partition_point(|(at, _)| *at <= range.start).saturating_sub(1);
            self.laid.found.push(first + line);
        }
        self.laid.lines.extend(lines.into_iter().map(|(_, line)| line));
    }

    /// The parts, split where a match begins or ends; the current match is highlighted most.
    fn marked<'p>(
        &self,
        parts: Vec<Part<'p>>,
        found: &[std::ops::Range<usize>],
        current: Option<usize>,
    ) -> Vec<Part<'p>> {
        let mut other = self.theme.style(Role::SelectionDim).add_modifier(Modifier::UNDERLINED);
        if other.bg.is_some() && other.fg.is_none() {
            // Words of the background's color would be invisible.
            other.fg = Some(Color::Reset);
        }
        let mut out = Vec::new();
        let mut at = 0;
        for (text, style) in parts {
            let (begin, end) = (at, at + text.len());
            at = end;
            let edges = found.iter().flat_map(|r| [r.start, r.end]).filter(|e| (begin + 1..end).contains(e));
            let mut edges: Vec<usize> = edges.collect();
            edges.push(end);
            let mut from = begin;
            for to in edges {
                let inside = found.iter().position(|r| r.start <= from && to <= r.end && from < to);
                let style = match inside {
                    Some(i) if Some(i) == current => style.patch(self.theme.style(Role::Selection)),
                    Some(_) => style.patch(other),
                    None => style,
                };
                out.push((Cow::Owned(text[from - begin..to - begin].to_owned()), style));
                from = to;
            }
        }
        out
    }

    /// Earlier questions and answers, and the current question; nothing if there are none before.
    fn conversation(&mut self, run: &Run) {
        let (dim, asked) = (self.theme.style(Role::Dim), self.theme.style(Role::Accent));
        let question = |words: &str| vec![("› ".into(), asked), (words.to_owned().into(), asked)];
        for turn in &run.subject.before {
            self.say(question(&turn.prompt));
            self.say(vec![(turn.answer.as_str().into(), dim)]);
            self.gap();
        }
        if !run.subject.before.is_empty() {
            self.say(question(&run.subject.prompt));
        }
    }

    fn caption(&mut self, run: &Run, shown: bool) {
        let theme = self.theme;
        let cursor = self.model.caption.inspector.filter(|_| shown).map(|i| i.token);
        let cursor = cursor.map(|token| token.min(run.log.token_count().saturating_sub(1)));
        let starts = step_starts(self.model, run);
        // The inspector's cursor is on tokens.
        let scene = run.log.scene().filter(|_| cursor.is_none());
        let settled = scene.as_ref().map_or(usize::MAX, |scene| scene.first_token);
        if let Some(edited) = run.log.edited().filter(|_| cursor.is_none()) {
            // No token has written it.
            let note = (Cow::Borrowed(" (edited)"), theme.style(Role::Dim));
            return self.say(vec![(Cow::Borrowed(edited), Style::new()), note]);
        }
        let chunks = run.log.chunks().iter().take_while(|chunk| chunk.tokens.start < settled);
        let parts = chunks.flat_map(|p| {
            let here = cursor.is_some_and(|n| p.tokens.contains(&n));
            let style = theme.verdict(p.verdict);
            let edge = starts.contains(&p.tokens.start).then_some((EDGE.into(), theme.style(Role::Dim)));
            let style = if here { style.add_modifier(CURSOR) } else { style };
            edge.into_iter().chain([(Cow::Borrowed(p.text.as_str()), style)])
        });
        let thought = self.thinking(run);
        let first = self.laid.lines.len();
        let mut parts: Vec<_> = parts.collect();
        if let Some(scene) = &scene {
            parts.extend(staged(scene, self.model, theme));
        }
        let is_empty = parts.is_empty() && !thought;
        self.say(parts);
        if cursor.is_some() {
            let here = |l: &Line<'_>| l.spans.iter().any(|s| s.style.add_modifier.contains(CURSOR));
            self.laid.cursor = self.laid.lines[first..].iter().position(here).map(|at| first + at);
        }
        self.ending(run, is_empty);
    }

    /// What the target thinks before it writes; true if there is anything.
    fn thinking(&mut self, run: &Run) -> bool {
        let dim = self.theme.style(Role::Dim);
        let chunks = run.log.thinking();
        if !chunks.is_empty() {
            self.say(chunks.iter().map(|chunk| (Cow::Borrowed(chunk.text.as_str()), dim)).collect());
            self.gap();
        }
        !chunks.is_empty()
    }

    fn ending(&mut self, run: &Run, is_empty: bool) {
        let (dim, bad) = (self.theme.style(Role::Dim), self.theme.style(Role::Bad));
        let (words, style) = match run.activity() {
            Activity::Failed(failure) => (format!("✗ {}", failure.error), bad),
            Activity::Done(StopReason::Cancelled) => ("— cancelled".into(), dim),
            Activity::CutOff => ("— the recording ends here".into(), dim),
            Activity::Done(StopReason::Length) => ("— stopped at the token limit".into(), dim),
            Activity::Done(StopReason::Loop) => ("— stopped, since the text repeated itself".into(), dim),
            Activity::Done(StopReason::Eos | StopReason::Stop) if is_empty => {
                ("— the target wrote nothing".into(), dim)
            }
            Activity::Sent | Activity::Working { .. } if is_empty => ("…".into(), dim),
            _ => return,
        };
        if !is_empty {
            self.gap();
        }
        self.say(vec![(words.into(), style)]);
        if let Some(hint) = run.log.failure().and_then(|failure| failure.hint.as_deref()) {
            self.gap();
            self.say(vec![(hint.into(), dim)]);
        }
    }
}

/// The text of a scene. Where strike-through may not be available, the rejected draft is in brackets.
pub(super) fn staged(scene: &Scene, model: &Model, theme: &Theme) -> Vec<Part<'static>> {
    let is_marked = model.config.ascii || matches!(model.config.colors, ColorDepth::None | ColorDepth::Ansi);
    let dim = theme.style(Role::Dim);
    let mut parts: Vec<Part<'static>> = Vec::new();
    let mut ahead = false;
    for part in &scene.parts {
        let style = match part.fate {
            Fate::Emitted(verdict) => theme.verdict(verdict),
            Fate::Ghost | Fate::Ahead => theme.style(Role::Ghost),
            Fate::Rejected => theme.style(Role::Rejected),
            Fate::Dropped => theme.style(Role::Ghost).patch(dim).add_modifier(Modifier::DIM),
        };
        // The next window follows a mark of its own.
        if part.fate == Fate::Ahead && !std::mem::replace(&mut ahead, true) {
            parts.push((EDGE.into(), dim));
        }
        if part.fate != Fate::Rejected {
            parts.push((part.text.clone().into(), style));
            continue;
        }
        let word = part.text.trim_start();
        // A struck space would look like a dash.
        parts.push((part.text[..part.text.len() - word.len()].to_owned().into(), Style::new()));
        let word = if is_marked { format!("[-{word}-]") } else { word.to_owned() };
        parts.push((word.into(), style));
    }
    if scene.others > 0 {
        parts.push((format!(" +{}", plural(scene.others as u64, "other draft")).into(), dim));
    }
    parts
}

/// The numbers of the tokens before which a step ends, if that is shown. Not during a search, which a mark would interrupt.
fn step_starts(model: &Model, run: &Run) -> std::collections::HashSet<usize> {
    let mut n = 0;
    let start = |step: &specreel_record::Step| {
        let start = n;
        n += step.tokens.len();
        start
    };
    let steps =
        run.log.steps().iter().filter(|_| model.caption.boundaries && model.caption.search.query.is_empty());
    steps.map(start).filter(|start| *start > 0).collect()
}

/// What a studio that was never opened before says first.
pub(super) fn greeting(model: &Model) -> Option<String> {
    let key = |action| model.keymap.shown(KeyContext::Library, &[action]);
    let (run, methods, help) = (key(Action::Run), key(Action::Methods), key(Action::Help));
    model.config.is_first.then(|| {
        format!(
            "Welcome to specreel. {run} captions the selected clip, {methods} selects a method, {help} lists all keys."
        )
    })
}

fn welcome(model: &Model, theme: &Theme, columns: usize) -> Vec<Line<'static>> {
    let dim = theme.style(Role::Dim);
    if let EngineState::Failed(failure) = &model.models.engine {
        let mut lines = wrap([(format!("✗ {}", failure.error).as_str(), theme.style(Role::Bad))], columns);
        if let Some(hint) = &failure.hint {
            lines.push(Line::default());
            lines.extend(wrap([(hint.as_str(), dim)], columns));
        }
        return lines;
    }
    let mut lines = Vec::new();
    if let Some(greeting) = greeting(model) {
        let greeting = if model.caption.tour.is_some() { "Welcome to specreel.".into() } else { greeting };
        lines = wrap([(greeting.as_str(), theme.style(Role::Accent))], columns);
        lines.push(Line::default());
    }
    if model.is_out_of_depth() {
        lines.extend(wrap([("note: ", theme.style(Role::Warn)), (assets::LIMITS_NOTE, dim)], columns));
        lines.push(Line::default());
    }
    let what = match &model.config.server {
        Some(server) => format!("What {server} writes"),
        None => "Select a clip, edit the prompt, press Enter. The caption".into(),
    };
    let what = format!("{what} streams here, and every token shows how it was verified:");
    lines.extend(wrap([(what.as_str(), dim)], columns));
    lines.push(Line::default());
    let shown = [Verdict::Exact, Verdict::Loosened, Verdict::Shifted, Verdict::Corrected, Verdict::Bonus];
    for verdict in shown {
        let name = Span::styled(verdict.name(), theme.verdict(verdict));
        lines.extend(hang(name, 11, (verdict.why(), dim), columns));
    }
    if let EngineState::Ready(ready) = &model.models.engine {
        for note in &ready.notes {
            lines.push(Line::default());
            lines.extend(wrap([("note: ", theme.style(Role::Warn)), (note.as_str(), dim)], columns));
        }
    }
    lines
}
