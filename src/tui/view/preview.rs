//! The selected clip: what it is, its frames, and which of them a run would look at.

use std::sync::Arc;

use ratatui::{
    Frame,
    layout::Rect,
    text::{Line, Span},
    widgets::Paragraph,
};

use super::{Slot, blocks, player, popup, wrap::wrap};
use crate::{
    record::units,
    tui::{
        ColorDepth, Theme,
        model::{
            Model,
            library::{Entry, Kind},
            preview::{Preview, sampled, strip, thumbnail},
        },
        text,
        theme::Role,
    },
    video,
};

/// The layer.
pub(super) fn draw(model: &Model, theme: &Theme, frame: &mut Frame<'_>) -> Option<Slot> {
    let (entry, preview) = (model.library.selected()?, model.shown_preview()?);
    let whole = frame.area();
    let (area, inner) = popup(frame, theme, whole.width, whole.height, "Preview");
    let dim = theme.style(Role::Dim);
    let room = usize::from(area.width).saturating_sub(14);
    let head = Line::styled(format!(" {} ", text::fit(&entry.title, room)), dim).right_aligned();
    frame.render_widget(head, Rect { x: area.x + 1, width: area.width - 2, height: 1, ..area });

    let columns = usize::from(inner.width);
    let mut lines = wrap([(facts(entry).as_str(), theme.style(Role::Text))], columns);
    lines.truncate(2);
    let used = lines.len() as u16;
    frame.render_widget(Paragraph::new(lines), Rect { height: used, ..inner });
    let times = timeline(model, entry, preview, theme, columns);
    let high = (times.len() as u16).min(inner.height - used);
    let below = Rect { y: inner.bottom() - high, height: high, ..inner };
    frame.render_widget(Paragraph::new(times), below);

    let middle = Rect { y: inner.y + used, height: inner.height - used - high, ..inner };
    let strip = model.strips.get(&strip(&entry.path));
    let shown = strip.and_then(|r| r.at(preview.clock.at / 1e3)).filter(|_| model.has_pictures());
    match shown {
        Some(still) => picture(model, still, frame, middle),
        None => {
            let problem = strip.and_then(|r| r.ended.clone()).and_then(Result::err);
            let (words, role) = match problem {
                Some(problem) => (problem, Role::Bad),
                None => (absent(model).to_owned(), Role::Dim),
            };
            let lines = wrap([(words.as_str(), theme.style(role))], columns);
            let top = middle.y + middle.height.saturating_sub(lines.len() as u16) / 2;
            let at = Rect { y: top, height: middle.bottom() - top, ..middle };
            frame.render_widget(Paragraph::new(lines).centered(), at);
            None
        }
    }
}

/// Why there is no picture.
fn absent(model: &Model) -> &'static str {
    match (model.has_pictures(), model.colors) {
        (true, _) => "reading frames…",
        (false, _) if !model.settings.reads => "",
        (false, _) if model.ascii => "no pictures in ASCII",
        (false, ColorDepth::None) => "no pictures without colours",
        (false, ColorDepth::Ansi) => {
            "no pictures in 16 colours; --image-protocol names what the terminal can do"
        }
        (false, _) => "pictures are switched off",
    }
}

/// The picture that stands below the list, as far as it is there.
pub(super) fn small(model: &Model, theme: &Theme, frame: &mut Frame<'_>, area: Rect) -> Option<Slot> {
    if let Some(problem) = model.library.selected()?.problem() {
        let inside = Rect { x: area.x + 1, width: area.width.saturating_sub(2), ..area };
        let mut lines = wrap([(problem, theme.style(Role::Bad))], inside.width.into());
        lines.truncate(inside.height.into());
        frame.render_widget(Paragraph::new(lines), inside);
        return None;
    }
    let strip = model.strips.get(&thumbnail(&model.library.selected()?.path))?;
    picture(model, strip.frames.first()?, frame, area)
}

/// Half-blocks at once; where the terminal can do better, that follows.
fn picture(model: &Model, still: &Arc<video::Frame>, frame: &mut Frame<'_>, area: Rect) -> Option<Slot> {
    if area.is_empty() {
        return None;
    }
    blocks::draw(still, model.colors, frame.buffer_mut(), blocks::fit(still, area));
    Some(Slot { area, frame: Arc::clone(still) })
}

/// What is known of a clip, in a line.
fn facts(entry: &Entry) -> String {
    let mut known = Vec::new();
    if let Some(facts) = entry.facts() {
        known.extend(facts.size.map(|(w, h)| format!("{w} × {h}")));
        known.extend(facts.codec.as_ref().map(|c| text::clean_line(c)));
        known.extend(facts.fps.map(|fps| format!("{} fps", (100.0 * fps).round() / 100.0)));
        known.extend(facts.seconds.map(text::clock));
        known.extend(facts.frames.map(|n| format!("{n} frames")));
        known.extend((facts.turned != 0).then(|| format!("turned by {}°", facts.turned)));
    }
    known.extend(entry.bytes.map(units::bytes));
    // Where a clip of the program's own lies is nobody's concern.
    known.extend((entry.kind != Kind::Clip).then(|| text::clean_line(&entry.path.to_string_lossy())));
    known.join(" · ")
}

/// Three lines: the frames that a run would look at, where the clock stands, and both in words.
fn timeline(
    model: &Model,
    entry: &Entry,
    preview: &Preview,
    theme: &Theme,
    columns: usize,
) -> Vec<Line<'static>> {
    let clock = &preview.clock;
    let sampled = sampled(model, entry).unwrap_or_default();
    let last = columns.saturating_sub(1);
    let column = |share: f64| ((share.clamp(0.0, 1.0) * last as f64).round() as usize).min(last);
    let mut marks = vec![' '; columns];
    for seconds in &sampled {
        if clock.length > 0.0 && columns > 0 {
            marks[column(1e3 * seconds / clock.length)] = '╷';
        }
    }
    let here = if clock.length > 0.0 { column(clock.share()) } else { 0 };
    let mut words = player::clock(clock, theme);
    let many = match sampled.len() {
        0 => String::new(),
        n => format!("a run looks at {n} frames ╷"),
    };
    let used = words.iter().map(Span::width).sum::<usize>();
    words.push(Span::styled(text::fit(&many, columns.saturating_sub(used)), theme.style(Role::Dim)));
    vec![
        Line::styled(marks.into_iter().collect::<String>(), theme.style(Role::Accent)),
        Line::from(vec![
            Span::styled("━".repeat(here), theme.style(Role::Gauge)),
            Span::styled("●", theme.style(Role::Title)),
            Span::styled("─".repeat(last.saturating_sub(here)), theme.style(Role::GaugeRest)),
        ]),
        Line::from(words),
    ]
}
