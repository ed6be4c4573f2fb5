//! A studio whose engine is a recording: real runs of the embedded models on embedded clips, as `scripts/record-runs.sh` made
//! them, with the frames of those clips.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use specreel::tui::{Clip, ClipFacts, Effect, Msg, PromptPreset, Studio, StudioConfig};
use specreel_record::{Event, EventKind, Pace, RunLog, Session};
use specreel_scenes::{Scene, render};
use specreel_video::Frame;

use crate::tui::script::{self, asked, choose, engine, watch_all};

/// The embedded clips, in the order of the studio's library.
pub const CLIPS: [&str; 4] = ["three-shapes", "one-large-shape", "three-shots", "wide-two-shots"];

fn assets() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/demo")
}

pub fn clip(name: &str) -> PathBuf {
    assets().join("clips").join(name).with_extension("mp4")
}

pub fn scene(clip: &Path) -> Scene {
    let facts = std::fs::read(clip.with_extension("json")).unwrap();
    let facts: serde_json::Value = serde_json::from_slice(&facts).unwrap();
    Scene::from_seed(facts["seed"].as_u64().unwrap())
}

/// The methods of the comparison, in its order.
pub const COMPARED: [&str; 4] = ["autoregressive", "auto", "naive", "lenient"];

/// The recordings of `assets/demo/runs`.
#[derive(Clone, Copy, Debug)]
pub enum Recording {
    /// Plain decoding, `auto`, `naive` and `lenient` on the first clip, with what both models predicted: one comparison.
    Comparison,
    /// All clips one after another.
    Batch,
}

impl Recording {
    pub const ALL: [Self; 2] = [Self::Comparison, Self::Batch];

    /// The events of this method's run on the first clip.
    pub fn of(method: &str) -> Vec<EventKind> {
        let at = COMPARED.iter().position(|name| *name == method).unwrap();
        Self::Comparison.run(1 + at as u64)
    }

    pub fn session(self) -> Session {
        let file = format!("runs/{self:?}.jsonl").to_lowercase();
        Session::read(&assets().join(file)).unwrap()
    }

    /// The events of a run, in order, of the clip where it lies here.
    pub fn run(self, number: u64) -> Vec<EventKind> {
        let lines = self.session().lines.into_iter().filter(|line| line.event.run == number);
        let mut events: Vec<EventKind> = lines.map(|line| line.event.kind).collect();
        for event in &mut events {
            if let EventKind::Started(started) = event {
                started.video = clip(&started.video).to_string_lossy().into_owned();
            }
        }
        events
    }

    pub fn logs(self) -> Vec<RunLog> {
        let log = |number| {
            let mut log = RunLog::new(number);
            for kind in self.run(number) {
                log.apply(&Event::new(number, kind));
            }
            log
        };
        self.session().runs().into_iter().map(log).collect()
    }
}

/// The events of a run up to the end of so many steps.
pub fn steps(mut events: Vec<EventKind>, steps: usize) -> Vec<EventKind> {
    let ends = events.iter().enumerate().filter(|(_, kind)| matches!(kind, EventKind::Step(_)));
    let end = ends.map(|(at, _)| at + 1).nth(steps - 1).unwrap();
    events.truncate(end);
    events
}

/// A studio of this size as the program has it with its embedded models and clips, which are loaded, but with nothing of the user's.
pub fn studio(method: &str, pace: Pace, columns: u16, rows: u16) -> Studio {
    opened(StudioConfig { method: method.into(), pace, ..script::config("dark") }, columns, rows)
}

/// The same for this configuration.
pub fn opened(config: StudioConfig, columns: u16, rows: u16) -> Studio {
    let clips = CLIPS.map(|name| Clip { title: name.replace('-', " "), path: clip(name) });
    let config = StudioConfig {
        clips: clips.to_vec(),
        embedded: true,
        presets: PromptPreset::built_in(true),
        frames: Some(Arc::new(|_, _| Ok(()))),
        ..config
    };
    let (mut studio, _) = Studio::new(&config).unwrap();
    for path in CLIPS.map(clip) {
        let facts = specreel_video::probe(&path).map(ClipFacts::from).map_err(|error| error.to_string());
        studio.handle(Msg::Probed { path, facts });
    }
    let ready = Recording::Comparison.session().lines.swap_remove(0).event;
    assert!(matches!(ready.kind, EventKind::Ready(_)), "{ready:?}");
    feed(&mut studio, 0, [ready.kind]);
    let effects = studio.handle(Msg::Resize(columns, rows));
    read_frames(&mut studio, &effects);
    studio
}

/// The engine sends these events of a run. Returns what the studio asks for then.
pub fn feed(studio: &mut Studio, run: u64, events: impl IntoIterator<Item = EventKind>) -> Vec<Effect> {
    let effects = events.into_iter().flat_map(|kind| engine(studio, run, kind)).collect::<Vec<_>>();
    read_frames(studio, &effects);
    effects
}

pub fn press(studio: &mut Studio, keys: &str) -> Vec<Effect> {
    let effects = script::press(studio, keys);
    read_frames(studio, &effects);
    effects
}

/// A studio that has decoded the first clip with the target alone and with `naive`, with another method selected.
pub fn compared_before(method: &str, pace: Pace, columns: u16, rows: u16) -> Studio {
    let mut studio = studio(method, pace, columns, rows);
    for name in ["autoregressive", "naive"] {
        let run = asked(&choose(&mut studio, name)).unwrap();
        feed(&mut studio, run, Recording::of(name));
        watch_all(&mut studio);
    }
    studio
}

/// Answer the newest request for frames with frames of the clip's scene before compression, which are the
/// same on every machine.
fn read_frames(studio: &mut Studio, effects: &[Effect]) {
    let request = effects.iter().rev().find_map(|e| if let Effect::Frames(r) = e { Some(r) } else { None });
    let Some(Some(request)) = request else { return };
    let scene = scene(&request.path);
    let (width, height) = specreel_video::probe(&request.path).map(|p| (p.width, p.height)).unwrap();
    let (most, least) = request.max;
    let scale = (f64::from(most) / f64::from(width)).min(f64::from(least) / f64::from(height)).min(1.0);
    let [width, height] = [width, height].map(|side| (f64::from(side) * scale).round() as u32);
    for index in 0..request.count {
        let at = match request.count {
            // As the studio's thumbnails are taken.
            1 => 0.1,
            count => index as f64 / (count - 1) as f64,
        };
        let timestamp_s = (at * (scene.total_frames() - 1) as f64).round() / scene.fps;
        let rgb = render::frame(&scene, timestamp_s, width, height);
        let frame = Arc::new(Frame { index, timestamp_s, width, height, rgb });
        studio.handle(Msg::FrameRead(request.clone(), frame));
    }
    studio.handle(Msg::FramesRead(request.clone(), Ok(())));
}
