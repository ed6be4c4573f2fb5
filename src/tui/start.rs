//! The studio on its engine, from what the command line and the configuration say.

use std::{ops::ControlFlow, sync::Arc};

use crate::look::{ColorDepth, StudioError};
use crate::tui::{ClipFacts, FrameRequest, StudioConfig};
use specreel_batch::Sidecar;
use specreel_client::{Client, SidecarChoice, StudioStart, dirs::Dirs, speech};
use specreel_demo as assets;
use specreel_engine::{RunRequest, memory_check};
use specreel_record::Failure;
use specreel_video as video;

/// Run the studio on an engine of its own, or on the runs of a server, and return the exit code.
pub fn start(start: StudioStart) -> Result<i32, Failure> {
    let client = match &start.server {
        Some(server) => Client::connect(server, start.api_key.as_deref())?,
        None => {
            let client = Client::start_in_background()?;
            client.keep_speeds(Dirs::speeds())?;
            client.load(start.models.clone(), start.ignore_memory)?;
            client
        }
    };
    let ended = super::run(config(start), client).map(|()| 0);
    ended.map_err(|error| match error.downcast::<StudioError>() {
        Ok(error) => error.into(),
        Err(error) => Failure::internal(
            format!("{error:#}"),
            "`specreel doctor` checks this terminal; `specreel caption` needs none",
        ),
    })
}

fn config(start: StudioStart) -> StudioConfig {
    let usual = StudioConfig::default();
    let StudioStart { settings, request, .. } = start;
    let dirs = Dirs::find();
    let demo = assets::demo(dirs.as_ref().map(|dirs| dirs.cache.as_path()));
    let mut clips = demo.map(|demo| demo.clips).unwrap_or_default();
    // The one whose caption is right and has the most corrections comes first: a new user sees drafts rejected.
    clips.sort_by_key(|clip| clip.title != "three shapes");
    let here = || std::env::current_dir().map_or_else(|_| Vec::new(), |dir| vec![dir]);
    StudioConfig {
        video: start.video,
        clips,
        folders: if start.library.is_empty() { here() } else { start.library },
        folder: start.folder,
        methods: start.methods,
        method: request.method.name.clone(),
        embedded: start.embedded,
        loaded: start.loaded,
        models: start.server.is_none().then(|| Arc::new(start.store) as _),
        server: start.server,
        models_file: start.models_file,
        presets: start.presets,
        sampling_presets: Arc::new(start.sampling_presets),
        finder: start.finder,
        request: RunRequest { logprobs: usual.request.logprobs, ..request },
        rule: memory_check::rule(&start.models),
        // A theme that is configured is not forgotten for one that was tried.
        theme_file: usual.theme_file.clone().filter(|_| settings.theme.value.is_none()),
        theme: settings.theme.or("auto".into()),
        is_first: usual.log.as_ref().is_some_and(|log| !log.exists()),
        colors: ColorDepth::stdout(),
        mouse: settings.mouse.or(true),
        notify: settings.notify.or_default(),
        ascii: start.ascii,
        image_protocol: settings.image_protocol.or_default(),
        pace: settings.pace.or_default(),
        sidecar: match settings.sidecar.or_default() {
            SidecarChoice::Txt => Some(Sidecar::Txt),
            SidecarChoice::Json => Some(Sidecar::Json),
            SidecarChoice::Srt => Some(Sidecar::Srt),
            SidecarChoice::Vtt => Some(Sidecar::Vtt),
            SidecarChoice::None => None,
        },
        existing: settings.existing.or_default(),
        cues: settings.cues.or_default(),
        notice: start.problems.into_iter().next().map(|problem| problem.error),
        record: settings.sessions.or(true),
        keep: settings.sessions_keep.or(usual.keep),
        prompts: usual.prompts.clone().filter(|_| settings.prompt_history.or(true)),
        recent: usual.recent.clone().filter(|_| settings.recent.or(true)),
        cut: Some(Arc::new(|path, division| {
            video::segments(path, None, None, Some(division)).map_err(|e| e.to_string())
        })),
        listen: Some(Arc::new(|video, named, progress| {
            speech::listen(video, named, progress).map_err(|failure| failure.error)
        })),
        probe: Some(Arc::new(|path| {
            video::probe(path).map(ClipFacts::from).map_err(|error| error.to_string())
        })),
        frames: Some(Arc::new(frames)),
        ..usual
    }
}

/// Read frames of a clip, scaled down. A single frame is taken at a tenth of the clip, as the very beginning is often black.
fn frames(
    request: &FrameRequest,
    each: &mut dyn FnMut(video::Frame) -> ControlFlow<()>,
) -> Result<(), String> {
    let (width, height) = request.max;
    let words = |error: video::Error| error.to_string();
    if request.count == 1 {
        let _ = each(video::thumbnail(&request.path, 0.1, width, height).map_err(words)?);
        return Ok(());
    }
    for frame in video::stills(&request.path, request.count, request.max).map_err(words)? {
        if each(frame.map_err(words)?).is_break() {
            break;
        }
    }
    Ok(())
}
