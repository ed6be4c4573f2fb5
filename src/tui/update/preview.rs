//! The preview, and the frames to read for the screen.

use super::*;
use crate::tui::{
    ColorDepth,
    model::{
        frame_strips::FrameRequest,
        preview::{self, Preview},
    },
};

pub(super) fn open(model: &mut Model) {
    if model.library.selected().is_none() {
        return model.note(Tone::Info, "no clip to preview");
    }
    model.overlay = Some(Overlay::Preview);
    follow(model);
}

pub(super) fn control(model: &mut Model, action: Action) {
    let Some(preview) = &mut model.preview else { return };
    let clock = &mut preview.clock;
    match action {
        Action::Pause if clock.length > 0.0 => clock.toggle(),
        Action::SeekBack => clock.jump(-1.0),
        Action::SeekForward => clock.jump(1.0),
        Action::Slower => clock.change_speed(false),
        Action::Faster => clock.change_speed(true),
        Action::Top => clock.seek(0.0),
        Action::Bottom => clock.seek(clock.length),
        _ => {}
    }
}

pub(super) fn is_its_own(action: Action) -> bool {
    use Action::{Bottom, Faster, Pause, SeekBack, SeekForward, Slower, Top};
    [Pause, SeekBack, SeekForward, Slower, Faster, Top, Bottom].contains(&action)
}

pub(super) fn advance(model: &mut Model, ms: f64) {
    if let Some(preview) = &mut model.preview {
        preview.clock.advance(ms);
    }
}

/// Keep the preview on the selected clip, and pause it when it is closed.
pub(super) fn follow(model: &mut Model) {
    if model.overlay != Some(Overlay::Preview) {
        if let Some(preview) = &mut model.preview {
            preview.clock.playing = false;
        }
        return;
    }
    let Some(entry) = model.library.selected() else { return };
    let told = entry.facts().and_then(|f| f.seconds);
    let read = || {
        let strip = model.strips.get(&preview::strip(&entry.path)).filter(|r| r.ended.is_some())?;
        Some(strip.frames.last()?.timestamp_s)
    };
    let seconds = told.filter(|s| *s > 0.0).or_else(read);
    match &mut model.preview {
        Some(preview) if preview.path == entry.path => preview.set_length(seconds),
        other => *other = Some(Preview::new(&entry.path, seconds)),
    }
}

/// Request the frames that the screen shows, unless they are read or requested already.
pub(super) fn ask(model: &mut Model) -> Option<Effect> {
    let request = wanted(model).filter(|w| !model.strips.has(w));
    if request == model.strips.reading {
        return None;
    }
    model.strips.begin(request.clone());
    Some(Effect::Frames(request))
}

fn wanted(model: &Model) -> Option<FrameRequest> {
    if !model.has_pictures() {
        return None;
    }
    let selected = || model.library.selected().map(|e| e.path.as_path());
    if model.overlay == Some(Overlay::Preview) {
        return selected().map(preview::strip);
    }
    let inspected = model.inspector.and_then(|_| model.runs.shown());
    let blends = model.config.colors == ColorDepth::True && model.overlay.is_none();
    let tiles = inspected.filter(|_| blends).and_then(preview::tiles);
    let small = selected().filter(|_| view::shows_thumbnail(model)).map(preview::thumbnail);
    [tiles, small].into_iter().flatten().find(|request| !model.strips.has(request))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::{
        FrameRequest, Msg, Studio,
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
        studio.model().shown_preview().unwrap().clock.at
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
        assert_eq!(studio.model().strips.get(&strip("/demo/1.mp4")).unwrap().frames.len(), 1);
        assert!(studio.model().strips.get(&strip("/demo/0.mp4")).is_none());
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
        assert_eq!(studio.model().overlay, None);
        press(&mut studio, "esc tab shift-tab / n o n e enter");
        press(&mut studio, "v");
        assert_eq!(studio.model().overlay, None);
    }
}
