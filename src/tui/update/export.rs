//! Exporting the shown run, or all segments of its clip; or the captions of all clips, next to them.

use std::{collections::HashSet, path::PathBuf};

use crate::tui::model::{Model, Run, Tone, library::Kind};
use crate::tui::{effect::SidecarsWritten, text};
use specreel_client::present::export::{Format, Names};
use specreel_client::present::formats::plural;
use specreel_record::{Pieces, RunState, StopReason};

pub(crate) fn formats(model: &Model) -> &'static [Format] {
    model.runs.shown().map_or(&[], |run| Format::of(run.log.whole()))
}

/// The runs that belong together with the shown one, in a format; empty if no run is shown.
pub(crate) fn write(model: &Model, format: Format) -> String {
    let Some(run) = model.runs.shown() else { return String::new() };
    let runs = model.runs.together(run);
    let names = Names { video: &run.subject.title, method: &run.label };
    let runs = Pieces::of(runs.into_iter().map(|run: &Run| run.log.whole()));
    format.write(&names, &runs, model.batches.cues)
}

pub(crate) fn written(model: &mut Model, outcome: &SidecarsWritten) {
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
