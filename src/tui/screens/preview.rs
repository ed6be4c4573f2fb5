//! The preview of the selected clip: its properties, its frames, and which of them a run would sample.

use ratatui::layout::Constraint::{Length, Min};
use ratatui::layout::Layout;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use crate::look::{Action, ColorDepth, KeyContext, Role, Theme};
use crate::tui::model::library::{Entry, Kind};
use crate::tui::model::preview::{self, Preview, sampled};
use crate::tui::model::{Keys, Model, Screen, Tone, Turn};
use crate::tui::update::{panes, runs};
use crate::tui::widgets::{Frame, clock_words, cut, dialog, picture, popup, wrap};
use crate::tui::{config::FrameRequest, picker::Move, text};
use specreel_record::units;

/// Where a moment was found.
const FOUND: char = '▼';

/// Previews the selected clip; the model keeps where the preview of a clip was left.
#[derive(Debug)]
pub(crate) struct PreviewScreen;

pub(crate) fn open(model: &mut Model) {
    if has_clip(model) {
        model.screens.open(PreviewScreen);
        follow(model);
    }
}

/// Open it in the place of another screen.
pub(crate) fn instead(model: &mut Model) -> Turn {
    if has_clip(model) { Turn::open(PreviewScreen) } else { Turn::Leave }
}

/// Whether there is a clip to preview, paused; a notice says so if not.
fn has_clip(model: &mut Model) -> bool {
    if model.library.selected().is_none() {
        model.note(Tone::Info, "no clip to preview");
        return false;
    }
    if let Some(preview) = &mut model.library.preview {
        preview.clock.playing = false;
    }
    true
}

/// After each message: keep the preview on the selected clip.
pub(crate) fn follow(model: &mut Model) {
    if model.screens.shown::<PreviewScreen>().is_none() {
        return;
    }
    let Some(entry) = model.library.selected() else { return };
    let told = entry.facts().and_then(|f| f.seconds);
    let read = || {
        let strip = model.library.strips.get(&preview::strip(&entry.path)).filter(|r| r.ended.is_some())?;
        Some(strip.frames.last()?.timestamp_s)
    };
    let (seconds, path) = (told.filter(|s| *s > 0.0).or_else(read), entry.path.clone());
    match &mut model.library.preview {
        Some(preview) if preview.path == path => preview.set_length(seconds),
        other => *other = Some(Preview::new(&path, seconds)),
    }
    // Where it is looked for, once the clip's length is known.
    if let Some(preview) = &mut model.library.preview
        && preview.clock.length > 0.0
        && let Some((_, at)) = model.library.moment.take_if(|(of, _)| *of == preview.path)
    {
        preview.clock.seek(at * 1e3);
    }
}

impl Screen for PreviewScreen {
    fn keys(&self, _model: &Model) -> Keys {
        use Action::{Back, Down, Faster, Pause, Run, SeekForward};
        Keys::new(KeyContext::Preview, "keep", &[Pause, SeekForward, Faster, Down, Run, Back])
    }

    fn word(&self, action: Action, model: &Model) -> Option<&'static str> {
        match action {
            Action::Pause if !self.is_playing(model) => Some("play"),
            Action::Down => Some("clip"),
            _ => None,
        }
    }

    fn act(&mut self, action: Action, model: &mut Model) -> Turn {
        if matches!(action, Action::Run | Action::Choose) {
            runs::run_selected(model);
            return Turn::Leave;
        }
        let Some(Preview { clock, .. }) = &mut model.library.preview else { return Turn::Pass };
        match action {
            Action::Pause if clock.length > 0.0 => clock.toggle(),
            Action::Pause => {}
            Action::SeekBack => clock.jump(-1.0),
            Action::SeekForward => clock.jump(1.0),
            Action::Slower => clock.change_speed(false),
            Action::Faster => clock.change_speed(true),
            Action::Top => clock.seek(0.0),
            Action::Bottom => clock.seek(clock.length),
            _ => return Turn::Pass,
        }
        Turn::Stay
    }

    fn go(&mut self, go: Move, model: &mut Model) {
        panes::go_in_library(model, go);
    }

    fn frames(&self, model: &Model) -> Option<FrameRequest> {
        model.library.selected().map(|entry| preview::strip(&entry.path))
    }

    fn is_playing(&self, model: &Model) -> bool {
        model.library.preview.as_ref().is_some_and(|preview| preview.clock.playing)
    }

    fn advance(&mut self, ms: f64, model: &mut Model) -> bool {
        if let Some(preview) = &mut model.library.preview {
            preview.clock.advance(ms);
        }
        false
    }

    fn draw(&self, model: &Model, theme: &Theme, frame: &mut Frame<'_>) {
        let Some((entry, preview)) = model.library.selected().zip(model.library.preview.as_ref()) else {
            return;
        };
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
        let strip = model.library.strips.get(&preview::strip(&entry.path));
        let shown = strip.and_then(|r| r.at(preview.clock.at / 1e3)).filter(|_| model.has_pictures());
        if let Some(still) = shown {
            frame.slot = picture(still, model.config.colors, frame, middle);
            return;
        }
        let problem = strip.and_then(|r| r.ended.clone()).and_then(Result::err);
        let (words, role) = match problem {
            Some(problem) => (problem, Role::Bad),
            None => (absent(model).to_owned(), Role::Dim),
        };
        let lines = wrap([(words.as_str(), theme.style(role))], columns);
        let at = middle.centered_vertically(Length(lines.len() as u16));
        frame.render_widget(Paragraph::new(lines).centered(), at);
    }
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
    let moments = model.library.moments_of(&entry.path);
    for seconds in &sampled {
        if clock.length > 0.0 && columns > 0 {
            marks[column(1e3 * seconds / clock.length)] = '╷';
        }
    }
    for moment in moments {
        if clock.length > 0.0 && columns > 0 {
            marks[column(1e3 * moment.start / clock.length)] = FOUND;
        }
    }
    let here = if clock.length > 0.0 { column(clock.share()) } else { 0 };
    let mut words = clock_words(clock, theme);
    let many = match sampled.len() {
        0 => String::new(),
        n => format!("a run samples {n} frames ╷"),
    };
    let many = match (moments.len(), many.as_str()) {
        (0, _) => many,
        (n, "") => format!("{n} found {FOUND}"),
        (n, _) => format!("{n} found {FOUND} · {many}"),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::{
        FrameRequest, Msg, Studio,
        effect::Effect,
        testing::{frame, press, prompt, ready, step, with_pictures},
    };
    use specreel_record::{Event, Verdict};

    fn strip(path: &str) -> FrameRequest {
        preview::strip(path.as_ref())
    }

    fn asks(request: FrameRequest) -> Vec<Effect> {
        vec![Effect::Frames(Some(request))]
    }

    /// The time that the preview shows, in milliseconds.
    fn at(studio: &mut Studio) -> f64 {
        studio.model().library.preview.as_ref().unwrap().clock.at
    }

    #[test]
    fn frames_are_read_for_the_clip_that_is_looked_at_and_no_other() {
        let mut studio = with_pictures(100, 30);
        assert_eq!(press(&mut studio, "v"), asks(strip("/demo/0.mp4")));
        assert!(press(&mut studio, "right").is_empty(), "it is asked for already");
        assert_eq!(press(&mut studio, "down"), asks(strip("/demo/1.mp4")));
        // A frame of the first clip comes late.
        studio.handle(Msg::FrameRead(strip("/demo/0.mp4"), frame(0.0, 4, 4)));
        studio.handle(Msg::FrameRead(strip("/demo/1.mp4"), frame(0.0, 4, 4)));
        assert_eq!(studio.model().library.strips.get(&strip("/demo/1.mp4")).unwrap().frames.len(), 1);
        assert!(studio.model().library.strips.get(&strip("/demo/0.mp4")).is_none());
        assert_eq!(press(&mut studio, "esc"), [Effect::Frames(None)], "the preview is closed");
        assert_eq!(press(&mut studio, "v"), asks(strip("/demo/1.mp4")));
        studio.handle(Msg::FramesRead(strip("/demo/1.mp4"), Ok(())));
        assert!(press(&mut studio, "esc").is_empty() && press(&mut studio, "v").is_empty(), "it is kept");
    }

    #[test]
    fn a_tall_library_shows_one_picture() {
        let mut studio = with_pictures(100, 30);
        let effects = studio.handle(Msg::Resize(120, 44));
        assert_eq!(effects, asks(preview::thumbnail("/demo/0.mp4".as_ref())));
        assert_eq!(press(&mut studio, "?"), [Effect::Frames(None)], "something lies over it");
        let mut plain = ready();
        assert!(plain.handle(Msg::Resize(120, 44)).is_empty(), "frames cannot be read");
    }

    #[test]
    fn the_inspector_shows_the_frames_that_the_run_looked_at() {
        let mut studio = with_pictures(100, 30);
        press(&mut studio, "enter");
        studio.handle(Msg::Engine(Event::new(1, prompt(&[]))));
        studio.handle(step(1, &[("A", Verdict::Plain)], 0));
        let effects = press(&mut studio, "i");
        let Some(Effect::Frames(Some(request))) = effects.first() else { panic!("{effects:?}") };
        assert_eq!((request.path.as_path(), request.count), (std::path::Path::new("/demo/0.mp4"), 4));
        assert_eq!(press(&mut studio, "esc"), [Effect::Frames(None)]);
        studio.model().config.colors = ColorDepth::Indexed;
        assert!(press(&mut studio, "i").is_empty(), "heat is not mixed in few colors");
    }

    #[test]
    fn it_plays_stops_at_the_end_and_when_it_is_closed() {
        let mut studio = with_pictures(100, 30);
        press(&mut studio, "v");
        assert!(!studio.is_playing());
        press(&mut studio, "space");
        studio.handle(Msg::Advance(1500.0));
        assert!(studio.is_playing() && at(&mut studio) == 1500.0);
        press(&mut studio, "esc");
        assert!(!studio.is_playing());
        press(&mut studio, "v");
        assert!(!studio.is_playing() && at(&mut studio) == 1500.0, "it stays paused at its time");
        press(&mut studio, "space");
        studio.handle(Msg::Advance(9000.0));
        assert!(!studio.is_playing() && at(&mut studio) == 6000.0);
        press(&mut studio, "down");
        assert!(at(&mut studio) == 0.0, "another clip begins at its beginning");
    }

    #[test]
    fn keys_scrub() {
        let mut studio = with_pictures(100, 30);
        press(&mut studio, "v right right left");
        assert_eq!(at(&mut studio), 150.0);
        press(&mut studio, "end");
        assert_eq!(at(&mut studio), 6000.0);
        press(&mut studio, "home left");
        assert_eq!(at(&mut studio), 0.0);
        press(&mut studio, "+ space");
        studio.handle(Msg::Advance(500.0));
        assert_eq!(at(&mut studio), 1000.0);
    }

    #[test]
    fn a_clip_that_tells_no_length_has_that_of_its_frames() {
        let mut studio = with_pictures(100, 30);
        let facts = crate::tui::ClipFacts::default();
        studio.handle(Msg::Probed { path: "/demo/0.mp4".into(), facts: Ok(facts) });
        press(&mut studio, "v space");
        assert!(!studio.is_playing(), "nothing can play yet");
        studio.handle(Msg::FrameRead(strip("/demo/0.mp4"), frame(0.0, 4, 4)));
        studio.handle(Msg::FrameRead(strip("/demo/0.mp4"), frame(2.5, 4, 4)));
        studio.handle(Msg::FramesRead(strip("/demo/0.mp4"), Ok(())));
        press(&mut studio, "end");
        assert_eq!(at(&mut studio), 2500.0);
    }

    #[test]
    fn enter_runs_the_clip_and_an_empty_library_has_none() {
        let mut studio = with_pictures(100, 30);
        let effects = press(&mut studio, "v down enter");
        assert!(effects.iter().any(|e| matches!(e, Effect::Run(r) if r.video.ends_with("1.mp4"))));
        assert!(studio.model().screens.is_empty());
        press(&mut studio, "esc tab shift-tab / n o n e enter");
        press(&mut studio, "v");
        assert!(studio.model().screens.is_empty());
    }
}
