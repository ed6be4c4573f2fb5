//! The caption pane: the stream, every token in the style of its verdict.

use ratatui::{
    Frame,
    layout::Rect,
    style::Style,
    text::{Line, Span},
    widgets::Paragraph,
};

use super::{
    Areas, areas, has_focus, on_border, panel,
    passage::{self, Laid},
    player, title, typed,
};
use crate::tui::{
    Theme,
    model::{Model, Overlay, Pane, run::Run, search::Search},
    text,
    theme::Role,
};

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
    let inner = text_area(model, area);
    let laid = Laid { rows: inner.height.into(), ..passage::lay(model, theme, inner.width.into()) };
    if !model.search.query.is_empty() || model.layer == Some(Overlay::Search) {
        block = block.title_top(search(model, &laid, theme, room).right_aligned());
    } else if let Some(run) = run {
        block = block.title_top(legend(run, theme, room).right_aligned());
    }
    if let Some(replay) = model.shown_replay() {
        let at = Rect { x: area.x + 2, y: area.bottom() - 2, width: area.width.saturating_sub(4), height: 1 };
        frame.render_widget(player::bar(&replay.player, theme, at.width.into()), at);
    }
    let (top, up) = match run {
        Some(_) => (laid.top(model.caption_up), model.caption_up.min(laid.overflow())),
        // What stands there before the first run is read from its beginning.
        None => (0, 0),
    };
    let right = match run.map(|r| r.stats.emitted) {
        _ if up > 0 => Line::styled(
            format!(" ↓ {up} more {} ", if up == 1 { "line" } else { "lines" }),
            theme.style(Role::Accent),
        ),
        Some(n @ 1..) => {
            Line::styled(format!(" {n} {} ", if n == 1 { "token" } else { "tokens" }), theme.style(Role::Dim))
        }
        _ => Line::default(),
    };
    if let Some(run) = run {
        let room = usize::from(area.width).saturating_sub(4 + right.width());
        block = block.title_bottom(foot(run, theme, room));
    }
    block = block.title_bottom(right.right_aligned());
    frame.render_widget(block, area);
    let shown: Vec<_> = laid.lines.into_iter().skip(top).take(laid.rows).collect();
    frame.render_widget(Paragraph::new(shown), inner);
}

/// The method of a run, and where there is room for it the clip.
fn foot(run: &Run, theme: &Theme, columns: usize) -> Line<'static> {
    let lossless = run.about.lossless;
    let mut foot = Line::from(Span::styled(format!(" {} ", mark(lossless)), mark_style(lossless, theme)));
    let dim = theme.style(Role::Dim);
    let label = text::fit(&run.about.label, columns.saturating_sub(foot.width() + 1));
    foot.push_span(Span::styled(format!("{label} "), dim));
    let room = columns.saturating_sub(foot.width() + 3);
    if room >= 8 {
        foot.push_span(Span::styled(format!("· {} ", text::fit(&run.about.name(), room)), dim));
    }
    foot
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

/// The caption as it is laid out now; none where it is not on the screen.
pub(crate) fn lay(model: &Model) -> Option<Laid> {
    let area = places(model).and_then(|a| a.caption).map(|a| text_area(model, a))?;
    let mut laid = passage::lay(model, model.theme(), area.width.into());
    laid.rows = area.height.into();
    Some(laid)
}

/// Where the caption has to stand so that the token cursor is seen, as lines from its end; none where it is seen already.
pub(crate) fn scroll_to_cursor(model: &Model) -> Option<usize> {
    let laid = lay(model)?;
    laid.cursor.and_then(|line| laid.scroll_to(line, model.caption_up))
}

/// Lines of the caption beyond those that fit.
pub(crate) fn overflow(model: &Model) -> usize {
    lay(model).map_or(0, |laid| laid.overflow())
}

/// Lines that fit.
pub(crate) fn page(model: &Model) -> usize {
    places(model).and_then(|a| a.caption).map_or(1, |a| text_area(model, a).height.into())
}

/// What is searched, and which of how many matches is shown.
fn search(model: &Model, laid: &Laid, theme: &Theme, columns: usize) -> Line<'static> {
    let Search { query, at } = &model.search;
    let count = match laid.found.len() {
        _ if query.is_empty() => Span::raw(""),
        0 => Span::styled(" no match", theme.style(Role::Warn)),
        n => Span::styled(format!(" {} of {n}", (at + 1).min(n)), theme.style(Role::Dim)),
    };
    let room = columns.saturating_sub(count.width() + 5);
    let mut spans = vec![Span::styled(" / ", theme.style(Role::Key))];
    match model.layer == Some(Overlay::Search) {
        true => spans.extend(typed(query, model.caret, room + 1, theme)),
        false => spans.push(Span::raw(text::fit_end(query, room))),
    }
    spans.extend([count, Span::raw(" ")]);
    Line::from(spans).style(on_border(theme))
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
