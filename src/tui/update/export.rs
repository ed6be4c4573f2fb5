//! Exporting the shown run.

use crate::tui::{
    Effect,
    export::{Format, file_name},
    model::{Model, Overlay, Tone},
};

/// The formats in which the shown run can be exported.
pub(super) fn formats(model: &Model) -> &'static [Format] {
    model.runs.shown().map_or(&[], Format::of)
}

/// Ask for the format.
pub(super) fn open(model: &mut Model) {
    let runs = model.runs.shown().map(|run| model.runs.together(run)).unwrap_or_default();
    match runs.iter().any(|r| !r.log.chunks().is_empty()) {
        true => model.layer = Some(Overlay::Export(0)),
        false => model.note(Tone::Info, "no caption to save yet"),
    }
}

/// Export in the format under the cursor.
pub(super) fn choose(model: &mut Model, cursor: usize) -> Vec<Effect> {
    let (Some(run), Some(format)) = (model.runs.shown(), formats(model).get(cursor)) else {
        return Vec::new();
    };
    let name = format!("{}.{}", file_name(run), format.ending());
    vec![Effect::Write(name, format.write(&model.runs.together(run)))]
}
