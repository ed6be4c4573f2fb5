//! What changes the model, for keys, the engine's events and the screens alike.
//!
//! Pure: no clock, no file, no terminal. What has to be done outside is returned as effects.

pub(crate) mod batch;
pub(crate) mod clip_frames;
pub(crate) mod events;
pub(crate) mod export;
pub(crate) mod inspect;
pub(crate) mod methods;
pub(crate) mod models;
pub(crate) mod notify;
pub(crate) mod panes;
pub(crate) mod runs;
pub(crate) mod search;
pub(crate) mod segments;
pub(crate) mod steps;
pub(crate) mod verify;
pub(crate) mod watch;

use std::path::Path;

use crate::tui::effect::Effect;
use crate::tui::model::{EngineState, Model, library};

/// Add a file of the user's to the recent files.
pub(crate) fn remember(model: &mut Model, file: &Path) {
    let entry = model.library.entries.iter().find(|e| e.path == file);
    let is_own = entry.is_none_or(|e| e.kind != library::Kind::Clip && e.problem().is_none());
    let list = model.config.recent.clone().filter(|_| is_own);
    model.effects.extend(list.map(|list| Effect::Remember(list, file.into())));
}

/// Why no run can be requested, if the engine has failed or is none of this studio.
pub(crate) fn engine_problem(model: &Model) -> Option<String> {
    match (&model.config.server, &model.models.engine) {
        (Some(server), _) => Some(format!("this studio follows {server}: runs are started there")),
        (None, EngineState::Failed(failure)) => Some(format!("no models: {}", failure.error)),
        _ => None,
    }
}
