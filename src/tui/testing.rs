//! Shared parts of the studio's unit tests: methods, clips, studios, events.

use std::sync::Arc;

use super::{Clip, ClipFacts, ColorDepth, Effect, Key, Msg, Studio, StudioConfig, VideoFile};
use crate::tui::model::stack::Screen;
use crate::tui::text;
use ratatui::buffer::Cell;
use specreel_engine::RunRequest;
use specreel_record::{
    Event, EventKind, PromptSeen, Ready, Started, Stats, Step, StopReason, Verdict, testing,
};
use specreel_speculate::Method;
use specreel_video::Frame;

pub(crate) fn methods() -> Vec<Method> {
    ["autoregressive", "naive", "lvspec"].map(|name| Method::preset(name).unwrap()).to_vec()
}

pub(crate) fn config() -> StudioConfig {
    let clip = |title: &str, path: &str| Clip { title: title.into(), path: path.into() };
    StudioConfig {
        clips: vec![clip("Red ball", "/demo/0.mp4"), clip("Two squares", "/demo/1.mp4")],
        methods: methods(),
        method: "lvspec".into(),
        theme: "dark".into(),
        colors: ColorDepth::True,
        keymap: None,
        themes: None,
        theme_file: None,
        models_file: None,
        methods_dir: Some("/config/methods".into()),
        sessions: Some("/sessions".into()),
        recent: None,
        log: None,
        ..StudioConfig::default()
    }
}

/// A studio of 100 × 30 whose models still load.
pub(crate) fn studio() -> Studio {
    let (mut studio, effects) = Studio::new(&config()).unwrap();
    assert_eq!(effects, [Effect::List("/sessions".into())]);
    studio.handle(Msg::Resize(100, 30));
    studio
}

/// A ready studio of this size that can show frames of clips of six seconds.
pub(crate) fn with_pictures(columns: u16, rows: u16) -> Studio {
    let config = StudioConfig { frames: Some(Arc::new(|_, _| Ok(()))), ..config() };
    let (mut studio, _) = Studio::new(&config).unwrap();
    studio.handle(ready_event());
    for path in ["/demo/0.mp4", "/demo/1.mp4"] {
        let facts = ClipFacts { seconds: Some(6.0), fps: Some(10.0), frames: Some(60), ..Default::default() };
        studio.handle(Msg::Probed { path: path.into(), facts: Ok(facts) });
    }
    studio.handle(Msg::Resize(columns, rows));
    studio
}

/// A studio whose models are loaded.
pub(crate) fn ready() -> Studio {
    let mut studio = studio();
    studio.handle(ready_event());
    studio
}

pub(crate) fn ready_event() -> Msg {
    let kind = EventKind::Ready(Ready {
        target: "target-25m".into(),
        drafter: Some("drafter-5m".into()),
        device: "cpu".into(),
        dtype: "q8_0".into(),
        ..Ready::default()
    });
    Msg::Engine(Event::new(0, kind))
}

/// A frame whose colors encode the position of its pixels.
pub(crate) fn frame(seconds: f64, width: u32, height: u32) -> Arc<Frame> {
    let rgb = (0..width * height).flat_map(|i| [(i % width) as u8, (i / width) as u8, 200]).collect();
    Arc::new(Frame { index: 0, timestamp_s: seconds, width, height, rgb })
}

/// Press keys as key maps write them, separated by spaces.
pub(crate) fn press(studio: &mut Studio, keys: &str) -> Vec<Effect> {
    keys.split(' ')
        .flat_map(|k| studio.handle(Msg::Key(Key::parse(k).unwrap_or_else(|| panic!("{k} is no key")))))
        .collect()
}

pub(crate) fn step(run: u64, tokens: &[(&str, Verdict)], judged: usize) -> Msg {
    Msg::Engine(Event::new(run, EventKind::Step(step_of(tokens, judged))))
}

/// A step of 20 ms with these tokens.
pub(crate) fn step_of(tokens: &[(&str, Verdict)], judged: usize) -> Step {
    Step { draft_ms: 4.0, verify_ms: 16.0, ..testing::judged(judged, tokens) }
}

/// A studio whose first run has written a caption in two steps and ended.
pub(crate) fn after_a_run() -> Studio {
    let mut studio = ready();
    press(&mut studio, "enter");
    let tokens = [("A red", Verdict::Exact), (" ball", Verdict::Loosened), (".", Verdict::Corrected)];
    studio.handle(step(1, &tokens, 3));
    studio.handle(step(1, &[(" rolls", Verdict::Exact), (".", Verdict::Bonus)], 1));
    studio.handle(done(1, StopReason::Eos, "A red ball. rolls."));
    studio
}

/// The first event of a run.
pub(crate) fn started(video: &str, name: &str) -> EventKind {
    EventKind::Started(about(video, name))
}

pub(crate) fn about(video: &str, name: &str) -> Started {
    Started {
        method: serde_json::json!({ "name": name, "drafter": { "kind": "model" } }),
        lossless: name != "lvspec",
        video: video.into(),
        prompt: "Describe the video.".into(),
        ..testing::about()
    }
}

/// A prompt that was read, with these notes.
pub(crate) fn prompt(words: &[&str]) -> EventKind {
    let mut kind = testing::prompt(None);
    if let EventKind::Prompt(PromptSeen { notes, .. }) = &mut kind {
        notes.extend(words.iter().map(|note| (*note).to_owned()));
    }
    kind
}

pub(crate) fn done(run: u64, reason: StopReason, text: &str) -> Msg {
    let stats = Stats { emitted: 3, steps: 1, tokens_per_second: 50.0, ..Stats::default() };
    Msg::Engine(Event::new(run, testing::ended(reason, text, &[], stats)))
}

/// The screen as text, without its styles.
pub(crate) fn screen(studio: &Studio, columns: u16, rows: u16) -> String {
    let picture = studio.picture(columns, rows);
    let line = |row: &[Cell]| {
        let mut covered = 0;
        let symbols = row.iter().enumerate().filter(|(x, cell)| {
            let is_own = *x >= covered;
            if is_own {
                covered = x + text::width(cell.symbol()).max(1);
            }
            is_own
        });
        let line: String = symbols.map(|(_, cell)| cell.symbol()).collect();
        format!("{}\n", line.trim_end())
    };
    picture.content().chunks(columns.into()).map(line).collect()
}

pub(crate) fn notice(studio: &mut Studio) -> String {
    studio.model().notices.shown.clone().map(|(_, words)| words).unwrap_or_default()
}

/// The screen on top, which is one of these.
pub(crate) fn shown<S: Screen>(studio: &mut Studio) -> &mut S {
    studio.model().screens.shown_mut().expect("another screen is shown")
}

pub(crate) fn is_shown<S: Screen>(studio: &mut Studio) -> bool {
    studio.model().screens.shown::<S>().is_some()
}

pub(crate) fn run_of(effects: &[Effect]) -> Option<&RunRequest> {
    effects.iter().find_map(|e| if let Effect::Run(request) = e { Some(&**request) } else { None })
}

/// A ready studio with five clips: two of the demo, three of a directory.
pub(crate) fn five() -> Studio {
    let mut studio = ready();
    let found = ["a", "b", "c"].map(|name| VideoFile {
        path: format!("/v/{name}.mp4").into(),
        bytes: None,
        modified: None,
    });
    studio.handle(Msg::Scanned { folder: "/v".into(), found: Ok(found.to_vec()), note: None });
    studio
}
