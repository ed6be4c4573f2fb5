//! Exporting a run of the studio: see [`present::export`](crate::present::export).

use super::model::run::Run;
use crate::{
    present::export::{self, Names},
    record::Pieces,
};

pub(crate) use crate::present::export::Format;

/// The formats that a run can be exported to.
pub(crate) fn formats(run: &Run) -> &'static [Format] {
    Format::of(&run.log)
}

/// The contents of the file for a run, or for the pieces of a clip.
pub(crate) fn write(format: Format, runs: &[&Run]) -> String {
    let Some(first) = runs.first() else { return String::new() };
    let names = Names { video: &first.about.title, method: &first.about.label };
    format.write(&names, &Pieces::of(runs.iter().map(|run| &run.log)))
}

/// A name for a run's file, without its extension.
pub(crate) fn file_name(run: &Run) -> String {
    let method = run.about.method.as_ref().map_or(run.about.label.as_str(), |m| &m.name);
    export::file_name(&run.about.video, method)
}
