//! Exporting the shown run, or all segments of its clip; or the captions of all clips, next to them.

use std::collections::HashSet;

use super::*;
use crate::tui::{SidecarsWritten, model::library::Kind};
use specreel_client::present::export::{Format, Names, file_name};
use specreel_record::{Pieces, RunState, StopReason};

pub(crate) fn formats(model: &Model) -> &'static [Format] {
    model.runs.shown().map_or(&[], |run| Format::of(run.log.whole()))
}

/// The runs that belong together with the shown one, in a format; empty if no run is shown.
pub(super) fn write(model: &Model, format: Format) -> String {
    let Some(run) = model.runs.shown() else { return String::new() };
    let runs = model.runs.together(run);
    let names = Names { video: &run.subject.title, method: &run.label };
    let runs = Pieces::of(runs.into_iter().map(|run: &Run| run.log.whole()));
    format.write(&names, &runs, model.batches.cues)
}

pub(super) fn written(model: &mut Model, outcome: &SidecarsWritten) {
    let SidecarsWritten { written, kept, failed } = outcome;
    let mut words = format!("{} written", plural(*written as u64, "caption"));
    if *kept > 0 {
        words += &format!(", {kept} existing left alone");
    }
    match failed.first() {
        Some(first) => {
            model.note(Tone::Bad, format!("{words}, {} failed: {}", failed.len(), text::clean_line(first)));
        }
        None => model.note(Tone::Info, words),
    }
}

pub(super) fn open(model: &mut Model) {
    let runs = model.runs.shown().map(|run| model.runs.together(run)).unwrap_or_default();
    match runs.iter().any(|r| !r.log.whole().chunks().is_empty()) {
        true => model.overlay = Some(Overlay::Export(0)),
        false => model.note(Tone::Info, "no caption to export yet"),
    }
}

/// The captions that can be written next to their clips: the newest one of each file that this session has captioned. Embedded
/// clips have no place of their own, and the answer to a follow-up question is no caption.
pub(crate) fn sidecars(model: &Model) -> Vec<(PathBuf, String)> {
    let embedded = |path: &PathBuf| {
        model.library.entries.iter().any(|entry| entry.kind == Kind::Clip && entry.path == *path)
    };
    let complete = |run: &&Run| match run.log.whole().state() {
        RunState::Done(reason) => *reason != StopReason::Cancelled,
        _ => false,
    };
    let mut seen = HashSet::new();
    let mut found = Vec::new();
    for run in model.runs.all.iter().rev().filter(|run| !run.replayed && run.subject.before.is_empty()) {
        let together = model.runs.together(run);
        let is_whole = together.len() == run.subject.segments.len().max(1) && together.iter().all(complete);
        if !is_whole || embedded(&run.subject.video) || !seen.insert(&run.subject.video) {
            continue;
        }
        let texts: Vec<&str> = together.iter().map(|run| run.log.whole().text().trim()).collect();
        found.push((run.subject.video.clone(), texts.join(" ")));
    }
    found.reverse();
    found
}

/// How many things there are to choose from.
pub(crate) fn choices(model: &Model) -> usize {
    formats(model).len() + usize::from(!sidecars(model).is_empty())
}

pub(super) fn choose(model: &mut Model, cursor: usize) -> Vec<Effect> {
    let (Some(run), Some(format)) = (model.runs.shown(), formats(model).get(cursor)) else {
        let captions = sidecars(model);
        return if captions.is_empty() { Vec::new() } else { vec![Effect::Sidecars(captions)] };
    };
    let method = run.method.as_ref().map_or(run.label.as_str(), |method| &method.name);
    let name = format!("{}.{}", file_name(&run.subject.video, method), format.ending());
    vec![Effect::Write(name, write(model, *format))]
}
