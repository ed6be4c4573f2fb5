//! The selected clip: its properties, its frames, and which of them a run would sample.

use super::*;
use crate::tui::model::{
    library::{Entry, Kind},
    preview::{Preview, sampled, strip, thumbnail},
};
use specreel_record::units;

pub(super) fn draw(model: &Model, theme: &Theme, frame: &mut Frame<'_>) -> Option<Slot> {
    let (entry, preview) = (model.library.selected()?, model.shown_preview()?);
    let whole = frame.area();
    let title = text::fit(&entry.title, usize::from(whole.width).saturating_sub(14));
    let title = theme.line(Role::Dim, format!(" {title} ")).right_aligned();
    let inner = popup(frame, theme, whole.width, whole.height, dialog("Preview", theme).title_top(title));
    let columns = usize::from(inner.width);
    let mut facts = wrap([(facts(entry).as_str(), theme.style(Role::Text))], columns);
    cut(&mut facts, 2, columns);
    let [above, middle, below] =
        inner.layout(&Layout::vertical([Length(facts.len() as u16), Min(0), Length(3)]));
    frame.render_widget(Paragraph::new(facts), above);
    frame.render_widget(Paragraph::new(timeline(model, entry, preview, theme, columns)), below);
    let strip = model.strips.get(&strip(&entry.path));
    let shown = strip.and_then(|r| r.at(preview.clock.at / 1e3)).filter(|_| model.has_pictures());
    if let Some(still) = shown {
        return picture(model, still, frame, middle);
    }
    let problem = strip.and_then(|r| r.ended.clone()).and_then(Result::err);
    let (words, role) = match problem {
        Some(problem) => (problem, Role::Bad),
        None => (absent(model).to_owned(), Role::Dim),
    };
    let lines = wrap([(words.as_str(), theme.style(role))], columns);
    let at = middle.centered_vertically(Length(lines.len() as u16));
    frame.render_widget(Paragraph::new(lines).centered(), at);
    None
}

/// Why there is no picture.
fn absent(model: &Model) -> &'static str {
    match (model.has_pictures(), model.config.colors) {
        (true, _) => "reading frames…",
        (false, _) if model.config.frames.is_none() => "",
        (false, _) if model.config.ascii => "no pictures in ASCII",
        (false, ColorDepth::None) => "no pictures without colors",
        (false, ColorDepth::Ansi) => "no pictures in 16 colors: choose a protocol with --image-protocol",
        (false, _) => "pictures are off",
    }
}

pub(super) fn small(model: &Model, theme: &Theme, frame: &mut Frame<'_>, area: Rect) -> Option<Slot> {
    if let Some(problem) = model.library.selected()?.problem() {
        let inside = Rect { x: area.x + 1, width: area.width.saturating_sub(2), ..area };
        let mut lines = wrap([(problem, theme.style(Role::Bad))], inside.width.into());
        cut(&mut lines, inside.height.into(), inside.width.into());
        frame.render_widget(Paragraph::new(lines), inside);
        return None;
    }
    let strip = model.strips.get(&thumbnail(&model.library.selected()?.path))?;
    picture(model, strip.frames.first()?, frame, area)
}

/// Half-blocks at once; a graphics protocol draws over them later.
fn picture(model: &Model, still: &Arc<video::Frame>, frame: &mut Frame<'_>, area: Rect) -> Option<Slot> {
    if area.is_empty() {
        return None;
    }
    blocks::draw(still, model.config.colors, frame.buffer_mut(), blocks::fit(still, area));
    Some(Slot { area, frame: Arc::clone(still) })
}

fn facts(entry: &Entry) -> String {
    let mut known = Vec::new();
    if let Some(facts) = entry.facts() {
        known.extend(facts.size.map(|(w, h)| format!("{w} × {h}")));
        known.extend(facts.codec.as_ref().map(|c| text::clean_line(c)));
        known.extend(facts.fps.map(|fps| format!("{} fps", (100.0 * fps).round() / 100.0)));
        known.extend(facts.seconds.map(text::clock));
        known.extend(facts.frames.map(|n| format!("{n} frames")));
        known.extend((facts.turned != 0).then(|| format!("rotated by {}°", facts.turned)));
    }
    known.extend(entry.bytes.map(units::bytes));
    // The path of an embedded clip means nothing to the user.
    known.extend((entry.kind != Kind::Clip).then(|| text::clean_line(&entry.path.to_string_lossy())));
    known.join(" · ")
}

/// Three lines: marks for the frames that a run would sample, the position, and both in words.
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
        n => format!("a run samples {n} frames ╷"),
    };
    let used = words.iter().map(Span::width).sum::<usize>();
    words.push(theme.span(Role::Dim, text::fit(&many, columns.saturating_sub(used))));
    vec![
        theme.line(Role::Accent, marks.into_iter().collect::<String>()),
        Line::from(vec![
            theme.span(Role::Gauge, "━".repeat(here)),
            theme.span(Role::Title, "●"),
            theme.span(Role::GaugeRest, "─".repeat(last.saturating_sub(here))),
        ]),
        Line::from(words),
    ]
}
