//! Keeping the shown run as a file for people.

use crate::tui::{
    Effect,
    export::{self, Format},
    model::{Model, Overlay, Tone},
};

/// The kinds of file that the shown run can be.
pub(super) fn formats(model: &Model) -> &'static [Format] {
    model.runs.shown().map_or(&[], export::formats)
}

/// Ask for the kind of file.
pub(super) fn open(model: &mut Model) {
    let runs = model.runs.shown().map(|run| model.runs.together(run)).unwrap_or_default();
    match runs.iter().any(|r| !r.pieces.is_empty()) {
        true => model.layer = Some(Overlay::Export(0)),
        false => model.note(Tone::Info, "there is no caption to save yet"),
    }
}

/// Write the file of the kind under the cursor.
pub(super) fn choose(model: &mut Model, cursor: usize) -> Vec<Effect> {
    let (Some(run), Some(format)) = (model.runs.shown(), formats(model).get(cursor)) else {
        return Vec::new();
    };
    let name = format!("{}.{}", export::file_name(run), format.ending());
    vec![Effect::Write(name, export::write(*format, &model.runs.together(run)))]
}
