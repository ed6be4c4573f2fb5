//! Connects the studio with the engine.

use std::{ops::ControlFlow, path::PathBuf, sync::Arc};

use specreel::{
    cli::{self, resolve},
    tui::{self, ClipFacts, FrameRequest, PromptPreset, StudioConfig, StudioError},
};
use specreel_batch as batch;
use specreel_client::{Client, SidecarChoice};
use specreel_demo as assets;
use specreel_engine::memory_check;
use specreel_record::Failure;
use specreel_speculate::Method;
use specreel_video as video;

pub fn studio(start: resolve::Studio) -> Result<i32, Failure> {
    let client = Client::start_in_background()?;
    let rule = memory_check::rule(&start.models);
    let embedded = assets::is_embedded_target(&start.models.target);
    client.keep_speeds(cli::dirs::Dirs::speeds())?;
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
    let settings = start.settings;
    let here = || std::env::current_dir().map_or_else(|_| Vec::new(), |dir: PathBuf| vec![dir]);
    let usual = StudioConfig::default();
    let config = StudioConfig {
        embedded,
        presets: PromptPreset::built_in(embedded),
        recent: usual.recent.clone().filter(|_| settings.recent.or(true)),
        video: start.video,
        clips: first_rejects(start.clips),
        folder: start.folder,
        folders: if start.library.is_empty() { here() } else { start.library },
        methods,
        method: first.name,
        lossless: Method::lossless,
        prompt: start.request.prompt,
        // A theme that is configured is not forgotten for one that was tried.
        theme_file: usual.theme_file.clone().filter(|_| settings.theme.value.is_none()),
        is_first: usual.log.as_ref().is_some_and(|log| !log.exists()),
        theme: settings.theme.or("auto".into()),
        pace: settings.pace.or_default(),
        sidecar: match settings.sidecar.or_default() {
            SidecarChoice::Txt => Some(batch::Sidecar::Txt),
            SidecarChoice::Json => Some(batch::Sidecar::Json),
            SidecarChoice::Srt => Some(batch::Sidecar::Srt),
            SidecarChoice::Vtt => Some(batch::Sidecar::Vtt),
            SidecarChoice::None => None,
        },
        existing: settings.existing.or_default(),
        cues: settings.cues.or_default(),
        profile: start.profile,
        sampling: start.request.sampling,
        max_pixels: start.request.max_pixels,
        max_visual_tokens: start.request.max_visual_tokens,
        max_new_tokens: start.request.max_new_tokens,
        thinking: start.request.thinking,
        text: start.request.text,
        record: settings.sessions.or(true),
        keep: settings.sessions_keep.or(tui::DEFAULT_KEEP),
        prompts: usual.prompts.clone().filter(|_| settings.prompt_history.or(true)),
        cut: Some(Arc::new(|path, seconds| {
            video::segments(path, None, None, Some(seconds)).map_err(|e| e.to_string())
        })),
        notice: start.notice,
        colors: tui::ColorDepth::detect(),
        mouse: settings.mouse.or(false),
        ascii: !cli::terminal::draws_unicode(settings.charset.or_default()),
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
        image_protocol: settings.image_protocol.or_default(),
        rule,
        ..usual
    };
    let ended = tui::run(config, client).map(|()| 0);
    ended.map_err(|error| match error.downcast::<StudioError>() {
        Ok(error) => error.into(),
        Err(error) => Failure::internal(
            format!("{error:#}"),
            "`specreel doctor` checks this terminal; `specreel caption` needs none",
        ),
    })
}

/// The clips, first the one whose caption is right and has the most corrections: on its first run a new user sees drafts
/// rejected.
fn first_rejects(mut clips: Vec<assets::Clip>) -> Vec<assets::Clip> {
    clips.sort_by_key(|clip| clip.title != "three shapes");
    clips
}

/// Read frames of a clip, scaled down. A single frame is taken at a tenth of the clip, as the very beginning is often black.
fn frames(
    request: &FrameRequest,
    each: &mut dyn FnMut(video::Frame) -> ControlFlow<()>,
) -> Result<(), String> {
    let (width, height) = request.max;
    let read = match request.count {
        1 => video::thumbnail(&request.path, 0.1, width, height).map(each).map(|_| ()),
        count => video::stills(&request.path, count, request.max, each).map(|_| ()),
    };
    read.map_err(|error| error.to_string())
}
