//! Connects the faces with the engine.

use std::{ops::ControlFlow, path::PathBuf, sync::Arc};

use specreel::{
    cli::{self, Ports, resolve},
    engine::{Command, Engine, EngineHandle, RunRequest, memory_check},
    record::{Failure, FailureClass},
    speculate::Method,
    tui::{self, ClipFacts, FrameRequest, StudioConfig, StudioError},
    video,
};

/// The rooms behind the command line.
pub const PORTS: Ports = Ports { engine, studio };

fn engine() -> Result<cli::ports::Started, Failure> {
    let (handle, events) = Engine::start()?;
    Ok((Arc::new(Port(handle)), events))
}

/// The engine as the faces see it.
struct Port(EngineHandle);

impl cli::EnginePort for Port {
    fn send(&self, command: Command) -> Result<(), Failure> {
        self.0.send(command)
    }

    fn cancel(&self, run: u64) {
        self.0.cancel(run);
    }
}

impl tui::EnginePort for Port {
    fn run(&self, request: RunRequest) {
        // A full queue means that sixty-four runs already wait: one more would not be missed.
        if let Err(failure) = self.0.send(Command::Run(Box::new(request))) {
            tracing::warn!(error = failure.error, "a run was not taken");
        }
    }

    fn cancel(&self, run: u64) {
        self.0.cancel(run);
    }
}

fn studio(start: resolve::Studio) -> Result<i32, Failure> {
    let (handle, events) = Engine::start_behind()?;
    if start.ignore_memory {
        handle.send(Command::IgnoreMemory)?;
    }
    let rule = *memory_check::rule(&start.models);
    handle.send(Command::Load(start.models))?;
    let mut methods: Vec<Method> = Method::presets().to_vec();
    for own in start.methods {
        match methods.iter_mut().find(|m| m.name == own.name) {
            Some(same) => *same = own,
            None => methods.push(own),
        }
    }
    let first = start.request.method;
    match methods.iter_mut().find(|m| m.name == first.name) {
        Some(preset) => *preset = first.clone(),
        None => methods.insert(0, first.clone()),
    }
    let here = || std::env::current_dir().map_or_else(|_| Vec::new(), |dir: PathBuf| vec![dir]);
    let usual = StudioConfig::default();
    let config = StudioConfig {
        recent: usual.recent.clone().filter(|_| start.recent),
        video: start.video,
        clips: start.clips.into_iter().map(|c| tui::Clip { title: c.title, path: c.path }).collect(),
        folders: if start.library.is_empty() { here() } else { start.library },
        methods,
        method: first.name,
        lossless: Method::lossless,
        prompt: start.request.prompt,
        theme: start.theme.unwrap_or_else(|| "auto".into()),
        sampling: start.request.sampling,
        max_pixels: start.request.max_pixels,
        max_new_tokens: start.request.max_new_tokens,
        text: start.request.text,
        record: start.sessions,
        keep: start.sessions_keep.unwrap_or(tui::DEFAULT_KEEP),
        prompts: usual.prompts.clone().filter(|_| start.prompt_history),
        cut: Some(Arc::new(|path, seconds| {
            video::segments(path, None, None, Some(seconds)).map_err(|e| e.to_string())
        })),
        notice: start.notice,
        colors: tui::ColorDepth::detect(),
        mouse: start.mouse,
        ascii: !cli::terminal::draws_unicode(start.charset),
        probe: Some(Arc::new(|path| {
            let facts = video::probe(path).map_err(|error| error.to_string())?;
            Ok(ClipFacts {
                seconds: Some(facts.duration_s),
                size: Some((facts.width, facts.height)),
                codec: Some(facts.codec),
                fps: Some(facts.fps),
                frames: Some(facts.frame_count.get()).filter(|n| *n > 0),
                turned: facts.rotation_degrees,
            })
        })),
        frames: Some(Arc::new(frames)),
        image_protocol: start.image_protocol,
        rule,
        ..usual
    };
    let ended = tui::run(config, Box::new(Port(handle)), events).map(|()| 0);
    ended.map_err(|error| match error.downcast::<StudioError>() {
        Ok(error) => error.into(),
        Err(error) => Failure {
            class: FailureClass::Internal,
            error: format!("{error:#}"),
            hint: Some("`specreel doctor` tells what this terminal can do; `caption` needs none".into()),
        },
    })
}

/// The frames of a clip as small pictures. A single one is not of the very beginning, which is often black.
fn frames(wish: &FrameRequest, each: &mut dyn FnMut(video::Frame) -> ControlFlow<()>) -> Result<(), String> {
    let (width, height) = wish.max;
    let read = match wish.count {
        1 => video::thumbnail(&wish.path, 0.1, width, height).map(each).map(|_| ()),
        count => video::stills(&wish.path, count, wish.max, each).map(|_| ()),
    };
    read.map_err(|error| error.to_string())
}
