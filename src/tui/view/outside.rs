//! The window's title and progress.

use crate::tui::model::{Activity, EngineState, Model};
use crate::tui::text;
use crate::tui::window::{Outside, Progress};
use specreel_record::{Stage, StopReason};

pub(crate) fn outside(model: &Model) -> Outside {
    let named = |name: &str, state: &str| format!("specreel: {} – {state}", text::clean_line(name));
    let share = |done: u64, total: u64| match total {
        0 => Progress::Busy,
        _ => Progress::Percent((100 * done / total).min(100) as u8),
    };
    if let Some(batch) = model.batches.active().filter(|batch| batch.is_running()) {
        let (over, total) = (batch.over(), batch.clips.len());
        let title = format!("specreel: batch – {over} of {total}");
        return Outside { title, progress: share(over as u64, total as u64) };
    }
    if let Some(run) = model.runs.active() {
        let (state, progress) = match run.activity() {
            // The length of a caption is not known before its end.
            Activity::Working { stage: Stage::Generate, .. } => (Stage::Generate.doing(), Progress::Busy),
            Activity::Working { stage, done, total, .. } => (stage.doing(), share(done, total)),
            Activity::Cancelling => ("cancelling", Progress::Busy),
            _ => ("starting", Progress::Busy),
        };
        return Outside { title: named(&run.subject.name(), state), progress };
    }
    let (state, progress) = match &model.models.engine {
        EngineState::Loading { stage, done, total } => (stage.doing(), share(*done, *total)),
        EngineState::Failed(_) => ("no models", Progress::None),
        EngineState::Ready(_) => ("", Progress::None),
    };
    let title = match model.runs.shown().map(|run| (run.subject.name(), run.activity())) {
        _ if !state.is_empty() => format!("specreel: {state}"),
        Some((name, Activity::Done(StopReason::Cancelled))) => named(&name, "cancelled"),
        Some((name, Activity::Failed(_))) => named(&name, "failed"),
        Some((name, _)) => named(&name, "done"),
        None => "specreel".to_owned(),
    };
    let progress = if model.notices.missed_failure { Progress::Failed } else { progress };
    Outside { title, progress }
}
