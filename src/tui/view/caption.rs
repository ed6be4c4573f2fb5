//! The caption pane: the stream, every token in the style of its verdict.

use ratatui::{
    Frame,
    layout::Rect,
    style::{Modifier, Style},
    text::{Line, Span},
    widgets::Paragraph,
};

use super::{
    Areas, areas, has_focus, on_border, panel, player, title,
    wrap::{hang, wrap},
};
use crate::{
    record::{StopReason, Verdict},
    tui::{
        Theme,
        model::{
            EngineState, Model, Pane,
            run::{Run, RunState},
        },
        text,
        theme::Role,
    },
};

/// How the token under the cursor stands out, with and without colours.
const CURSOR: Modifier = Modifier::REVERSED;

/// The sign between two steps.
const EDGE: &str = "╎";

/// What stands beside a method's name on every face.
pub(super) fn mark(lossless: bool) -> &'static str {
    if lossless { "= lossless" } else { "≈ lossy" }
}

pub(super) fn mark_style(lossless: bool, theme: &Theme) -> Style {
    theme.style(if lossless { Role::Good } else { Role::Warn })
}

pub(super) fn draw(model: &Model, theme: &Theme, frame: &mut Frame<'_>, area: Rect) {
    let focused = has_focus(model, Pane::Caption);
    let run = model.runs.shown();
    let mut block = panel(title("Caption", focused, theme), focused, theme);
    let room = usize::from(area.width).saturating_sub(14);
    if let Some(run) = run {
        block = block.title_top(legend(run, theme, room).right_aligned());
        let mut foot = vec![
            Span::styled(format!(" {} ", mark(run.about.lossless)), mark_style(run.about.lossless, theme)),
            Span::styled(format!("{} ", text::fit(&run.about.label, room / 2)), theme.style(Role::Dim)),
        ];
        if room > 60 {
            foot.push(Span::styled(
                format!("· {} ", text::fit(&run.about.title, room / 3)),
                theme.style(Role::Dim),
            ));
        }
        block = block.title_bottom(Line::from(foot));
    }
    if let Some(replay) = model.shown_replay() {
        let at = Rect { x: area.x + 2, y: area.bottom() - 2, width: area.width.saturating_sub(4), height: 1 };
        frame.render_widget(player::bar(&replay.player, theme, at.width.into()), at);
    }
    let inner = text_area(model, area);
    let rows = usize::from(inner.height);
    let lines = lines(model, theme, inner.width.into());
    let most = lines.len().saturating_sub(rows);
    let up = model.caption_up.min(most);
    if up > 0 {
        let words = format!(" ↓ {up} more {} ", if up == 1 { "line" } else { "lines" });
        block = block.title_bottom(Line::styled(words, theme.style(Role::Accent)).right_aligned());
    } else if let Some(run) = run.filter(|r| r.stats.emitted > 0) {
        let words = format!(" {} tokens ", run.stats.emitted);
        block = block.title_bottom(Line::styled(words, theme.style(Role::Dim)).right_aligned());
    }
    frame.render_widget(block, area);
    let shown: Vec<_> = lines.into_iter().skip(most - up).take(rows).collect();
    frame.render_widget(Paragraph::new(shown), inner);
}

/// Inside the border, with a column of air on either side; a replay's clock takes the last line.
fn text_area(model: &Model, area: Rect) -> Rect {
    let below = if model.shown_replay().is_some() { 2 } else { 0 };
    Rect {
        x: area.x + 2,
        y: area.y + 1,
        width: area.width.saturating_sub(4),
        height: area.height.saturating_sub(2 + below),
    }
}

fn places(model: &Model) -> Option<Areas> {
    areas(model.size, model.focus, model.inspector.is_some())
}

/// Where the caption has to stand so that the token cursor is seen, as lines from its end; none where it is seen already.
pub(crate) fn scroll_to_cursor(model: &Model) -> Option<usize> {
    let area = places(model).and_then(|a| a.caption).map(|a| text_area(model, a))?;
    let (rows, lines) = (usize::from(area.height), lines(model, model.theme(), area.width.into()));
    let at = lines.iter().position(|l| l.spans.iter().any(|s| s.style.add_modifier.contains(CURSOR)))?;
    let most = lines.len().saturating_sub(rows);
    let top = most - model.caption_up.min(most);
    // A line of what stands around it is seen, too.
    let wanted = if at < top + 1 {
        at.saturating_sub(1)
    } else if at + 2 > top + rows {
        (at + 2).saturating_sub(rows).min(most)
    } else {
        return None;
    };
    Some(most - wanted)
}

/// Lines of the caption beyond those that fit.
pub(crate) fn overflow(model: &Model) -> usize {
    let Some(area) = places(model).and_then(|a| a.caption).map(|a| text_area(model, a)) else {
        return 0;
    };
    let n = lines(model, model.theme(), area.width.into()).len();
    n.saturating_sub(area.height.into())
}

/// Lines that fit.
pub(crate) fn page(model: &Model) -> usize {
    places(model).and_then(|a| a.caption).map_or(1, |a| text_area(model, a).height.into())
}

/// The verdicts with their live counts, each in its own style.
fn legend(run: &Run, theme: &Theme, columns: usize) -> Line<'static> {
    let mut spans = vec![Span::raw(" ")];
    let mut used = 2;
    for (verdict, count) in run.stats.verdicts.iter() {
        let count = format!(" {count}");
        let more = verdict.name().len() + count.len() + if spans.len() > 1 { 3 } else { 0 };
        if used + more > columns {
            spans.push(Span::styled(" …", theme.style(Role::Dim)));
            break;
        }
        if spans.len() > 1 {
            spans.push(Span::styled(" · ", theme.style(Role::Dim)));
        }
        // On a border a style without a colour of its own would take the border's.
        spans.push(Span::styled(verdict.name(), on_border(theme).patch(theme.verdict(verdict))));
        spans.push(Span::styled(count, theme.style(Role::Dim)));
        used += more;
    }
    if spans.len() == 1 {
        return Line::default();
    }
    spans.push(Span::raw(" "));
    Line::from(spans)
}

fn lines(model: &Model, theme: &Theme, columns: usize) -> Vec<Line<'static>> {
    let Some(run) = model.runs.shown() else { return welcome(model, theme, columns) };
    let cursor = model.inspector.map(|i| i.token.min(run.token_count().saturating_sub(1)));
    let starts = step_starts(model, run);
    let pieces = run.pieces.iter().flat_map(|p| {
        let here = cursor.is_some_and(|n| p.tokens.contains(&n));
        let style = theme.verdict(p.verdict);
        let edge = starts.contains(&p.tokens.start).then_some((EDGE, theme.style(Role::Dim)));
        edge.into_iter().chain([(p.text.as_str(), if here { style.add_modifier(CURSOR) } else { style })])
    });
    let mut lines = conversation(run, theme, columns);
    lines.extend(wrap(pieces, columns));
    let dim = theme.style(Role::Dim);
    let bad = theme.style(Role::Bad);
    let mut gap = !run.pieces.is_empty();
    let mut say = |words: &str, style: Style| {
        if std::mem::replace(&mut gap, true) {
            lines.push(Line::default());
        }
        lines.extend(wrap([(words, style)], columns));
    };
    match &run.state {
        RunState::Failed(failure) => {
            say(&format!("✗ {}", failure.error), bad);
            if let Some(hint) = &failure.hint {
                say(hint, dim);
            }
        }
        RunState::Done(StopReason::Cancelled) => say("— cancelled", dim),
        RunState::CutOff => say("— the recording ends here", dim),
        RunState::Done(StopReason::Length) => say("— stopped at the token limit", dim),
        RunState::Done(StopReason::Eos) if run.pieces.is_empty() => say("— the target wrote nothing", dim),
        RunState::Sent | RunState::Working { .. } if run.pieces.is_empty() => {
            say("…", dim);
        }
        _ => {}
    }
    lines
}

/// What was asked and answered before, and what is asked now; nothing where this is the first question.
fn conversation(run: &Run, theme: &Theme, columns: usize) -> Vec<Line<'static>> {
    let (dim, asked) = (theme.style(Role::Dim), theme.style(Role::Accent));
    let question = |words: &str| wrap([("› ", asked), (text::clean(words).as_str(), asked)], columns);
    let mut lines = Vec::new();
    for turn in &run.about.before {
        lines.extend(question(&turn.prompt));
        lines.extend(wrap([(text::clean(&turn.answer).as_str(), dim)], columns));
        lines.push(Line::default());
    }
    if !run.about.before.is_empty() {
        lines.extend(question(&run.about.prompt));
    }
    lines
}

/// The numbers of the tokens before which a step ends, where that is to be shown.
fn step_starts(model: &Model, run: &Run) -> std::collections::HashSet<usize> {
    let mut n = 0;
    let start = |step: &crate::record::Step| {
        let start = n;
        n += step.tokens.len();
        start
    };
    let steps = run.steps.iter().filter(|_| model.boundaries);
    steps.map(start).filter(|start| *start > 0).collect()
}

/// What stands there before the first run.
fn welcome(model: &Model, theme: &Theme, columns: usize) -> Vec<Line<'static>> {
    let dim = theme.style(Role::Dim);
    if let EngineState::Failed(failure) = &model.engine {
        let mut lines = wrap([(format!("✗ {}", failure.error).as_str(), theme.style(Role::Bad))], columns);
        if let Some(hint) = &failure.hint {
            lines.push(Line::default());
            lines.extend(wrap([(hint.as_str(), dim)], columns));
        }
        return lines;
    }
    let mut lines = wrap(
        [(
            "Choose a clip, write a prompt, press Enter. The caption streams here, and every token shows how it \
             was verified:",
            dim,
        )],
        columns,
    );
    lines.push(Line::default());
    let shown = [Verdict::Exact, Verdict::Loosened, Verdict::Shifted, Verdict::Corrected, Verdict::Bonus];
    for verdict in shown {
        let name = Span::styled(verdict.name(), theme.verdict(verdict));
        lines.extend(hang(name, 11, (verdict.why(), dim), columns));
    }
    lines
}
