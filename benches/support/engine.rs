//! What the benches share: an engine with models, one run at a time.

use std::path::Path;

use specreel::{
    engine::{Command, Engine, EngineHandle, RunRequest, TextSampling},
    model::{DeviceChoice, ModelSpec, WeightType},
    record::{Event, EventKind, Stats},
    speculate::Method,
    video::Sampling,
};
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

/// An engine that has its models.
pub struct Loaded {
    handle: EngineHandle,
    events: Receiver<Event>,
    runs: u64,
}

impl Loaded {
    /// Start an engine and load a target, perhaps with a drafter.
    pub fn new(target: &Path, drafter: Option<&Path>) -> Result<Self, String> {
        let (handle, events) = Engine::start().map_err(|f| f.error)?;
        let spec = ModelSpec {
            target: target.to_owned(),
            drafter: drafter.map(Path::to_owned),
            heads: Vec::new(),
            device: DeviceChoice::Cpu,
            drafter_device: None,
            dtype: WeightType::Auto,
            rope: Default::default(),
        };
        handle.send(Command::Load(spec)).map_err(|f| f.error)?;
        Ok(Self { handle, events, runs: 0 })
    }

    /// Caption a clip: the text and the account.
    pub fn run(&mut self, video: &Path, method: Method) -> Result<(String, Stats), String> {
        self.runs += 1;
        let name = method.name.clone();
        let request = RunRequest {
            span: None,
            segment: None,
            before: Vec::new(),
            run: self.runs,
            video: video.to_owned(),
            prompt: "Describe the video in detail.".into(),
            method,
            sampling: Sampling::Auto,
            max_pixels: None,
            max_new_tokens: 256,
            text: TextSampling::default(),
            logprobs: 0,
            measure: false,
        };
        self.handle.send(Command::Run(Box::new(request))).map_err(|f| f.error)?;
        while let Some(event) = self.events.blocking_recv() {
            match event.kind {
                EventKind::Done { text, stats, .. } => return Ok((text, *stats)),
                EventKind::Failed(failure) => return Err(format!("{name}: {}", failure.error)),
                _ => {}
            }
        }
        Err("the engine stopped".into())
    }
}
