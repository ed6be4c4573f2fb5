//! What the benches share: an engine with models, one run at a time.

use std::path::Path;

use specreel_engine::{Command, Engine, EngineHandle, RunRequest};
use specreel_model::ModelSpec;
use specreel_record::{Event, EventKind, Stats};
use specreel_speculate::Method;
use specreel_tensor::{DeviceChoice, WeightType};
use tokio::sync::mpsc::Receiver;

/// Run a bench; its problem goes to stderr and makes the exit code 1.
pub fn main(bench: impl FnOnce() -> Result<(), String>) {
    // `cargo test --benches` starts benches with --test: nothing to test here.
    if std::env::args().any(|a| a == "--test") {
        return;
    }
    if let Err(problem) = bench() {
        eprintln!("error: {problem}");
        std::process::exit(1);
    }
}

/// The first number on the command line.
pub fn number(otherwise: usize) -> usize {
    std::env::args().skip(1).find_map(|a| a.parse().ok()).unwrap_or(otherwise)
}

pub struct Loaded {
    handle: EngineHandle,
    events: Receiver<Event>,
    runs: u64,
}

impl Loaded {
    /// Start an engine and load a target, perhaps with a drafter. The variable `TOWER_DTYPE` is the type of their towers.
    pub fn new(target: &Path, drafter: Option<&Path>) -> Result<Self, String> {
        let (handle, events) = Engine::start().map_err(|f| f.error)?;
        let tower_dtype = std::env::var("TOWER_DTYPE").map_or(Ok(WeightType::Auto), |name| name.parse())?;
        let spec = ModelSpec {
            target: target.to_owned(),
            drafter: drafter.map(Path::to_owned),
            device: DeviceChoice::Cpu,
            tower_dtype,
            ..ModelSpec::default()
        };
        handle.send(Command::Load(spec)).map_err(|f| f.error)?;
        Ok(Self { handle, events, runs: 0 })
    }

    /// Caption a clip: the text and the statistics.
    pub fn run(&mut self, video: &Path, method: Method) -> Result<(String, Stats), String> {
        let mut outcome = Err("the engine stopped".into());
        self.request(video, method, false, &mut |kind| {
            let EventKind::Done { text, stats, .. } = kind else { return false };
            outcome = Ok((text, *stats));
            true
        })?;
        outcome
    }

    /// Caption a clip, with its speed measured afterwards or not, and pass the events on until `on` has seen enough.
    pub fn request(
        &mut self,
        video: &Path,
        method: Method,
        measure: bool,
        on: &mut dyn FnMut(EventKind) -> bool,
    ) -> Result<(), String> {
        let video = video.to_owned();
        self.play(RunRequest { video, method, measure, ..RunRequest::default() }, on)
    }

    /// Caption the clip of a request, and pass the events on until `on` has seen enough.
    pub fn play(&mut self, request: RunRequest, on: &mut dyn FnMut(EventKind) -> bool) -> Result<(), String> {
        self.runs += 1;
        let name = request.method.name.clone();
        let prompt = "Describe the video in detail.".into();
        let request = RunRequest { run: self.runs, prompt, ..request };
        self.handle.send(Command::Run(Box::new(request))).map_err(|f| f.error)?;
        while let Some(event) = self.events.blocking_recv() {
            if let EventKind::Failed(failure) = event.kind {
                return Err(format!("{name}: {}", failure.error));
            }
            if event.run == self.runs && on(event.kind) {
                return Ok(());
            }
        }
        Err("the engine stopped".into())
    }
}
