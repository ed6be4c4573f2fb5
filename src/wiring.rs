//! Connects the studio with the engine.

use std::{ops::ControlFlow, sync::Arc};

use specreel::{
    cli::{self, resolve},
    tui::{self, ClipFacts, FrameRequest, StudioConfig, StudioError},
};
use specreel_client::Client;
use specreel_record::Failure;
use specreel_video as video;

/// Run the studio on an engine of its own, or on the runs of a server, and return the exit code.
pub fn studio(start: resolve::Studio) -> Result<i32, Failure> {
    let client = match &start.config.server {
        Some(server) => Client::connect(server, start.api_key.as_deref())?,
        None => {
            let client = Client::start_in_background()?;
            client.keep_speeds(cli::dirs::Dirs::speeds())?;
            client.load(start.models, start.ignore_memory)?;
            client
        }
    };
    let config = StudioConfig {
        cut: Some(Arc::new(|path, division| {
            video::segments(path, None, None, Some(division)).map_err(|e| e.to_string())
        })),
        listen: Some(Arc::new(|video, named, progress| {
            resolve::speech::listen(video, named, progress).map_err(|failure| failure.error)
        })),
        probe: Some(Arc::new(|path| {
            video::probe(path).map(ClipFacts::from).map_err(|error| error.to_string())
        })),
        frames: Some(Arc::new(frames)),
        ..start.config
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
