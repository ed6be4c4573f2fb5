//! Exporting the shown run, or all segments of its clip.

use crate::{
    present::export::{Format, Names, file_name},
    record::Pieces,
    tui::{
        Effect,
        model::{Model, Overlay, Tone, run::Run},
    },
};

/// The formats in which the shown run can be exported.
pub(crate) fn formats(model: &Model) -> &'static [Format] {
    model.runs.shown().map_or(&[], |run| Format::of(run.log.whole()))
}

/// The runs that belong together with the shown one, in a format; empty if no run is shown.
pub(super) fn write(model: &Model, format: Format) -> String {
    let Some(run) = model.runs.shown() else { return String::new() };
    let runs = model.runs.together(run);
    let names = Names { video: &run.subject.title, method: &run.label };
    format.write(&names, &Pieces::of(runs.into_iter().map(|run: &Run| run.log.whole())))
}

/// Ask for the format.
pub(super) fn open(model: &mut Model) {
    let runs = model.runs.shown().map(|run| model.runs.together(run)).unwrap_or_default();
    match runs.iter().any(|r| !r.log.whole().chunks().is_empty()) {
        true => model.overlay = Some(Overlay::Export(0)),
        false => model.note(Tone::Info, "no caption to export yet"),
    }
}

/// Export in the format under the cursor.
pub(super) fn choose(model: &mut Model, cursor: usize) -> Vec<Effect> {
    let (Some(run), Some(format)) = (model.runs.shown(), formats(model).get(cursor)) else {
        return Vec::new();
    };
    let method = run.method.as_ref().map_or(run.label.as_str(), |method| &method.name);
    let name = format!("{}.{}", file_name(&run.subject.video, method), format.ending());
    vec![Effect::Write(name, write(model, *format))]
}
