//! Connects the faces with the engine.

use std::{ops::ControlFlow, path::PathBuf, sync::Arc};

use specreel::{
    cli::{self, resolve},
    client::Client,
    engine::memory_check,
    record::{Failure, FailureClass},
    speculate::Method,
    tui::{self, ClipFacts, FrameRequest, StudioConfig, StudioError},
    video,
};

/// Run the studio on an engine of its own, and return the exit code.
pub fn studio(start: resolve::Studio) -> Result<i32, Failure> {
    let client = Client::start_in_background()?;
    let rule = *memory_check::rule(&start.models);
    client.load(start.models, start.ignore_memory)?;
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
    let ended = tui::run(config, client).map(|()| 0);
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
