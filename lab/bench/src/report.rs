//! Results of suite `scenes`: the last JSON line, tables, charts.

use std::ops::Range;

use super::*;
use crate::{plan::System, tables::Row};
use specreel_client::present::{formats, wrap::hang};
use specreel_pruners::TargetPruner;
use specreel_record::Ready;

pub struct Report {
    /// Seeds of the requested clips; numbers from 0 of the user's own videos.
    pub seeds: Range<u64>,
    /// The user's own videos, if they are not synthetic clips.
    pub videos: Vec<String>,
    pub common: String,
    pub profile: Option<Profile>,
    pub systems: Vec<System>,
    pub trials: Vec<Trial>,
}

#[derive(Serialize)]
struct Closing<'a> {
    suite: &'static str,
    #[serde(flatten)]
    loaded: &'a Ready,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_seed: Option<u64>,
    /// What the numbers of the trials' clips mean.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    videos: &'a [String],
    clips: u64,
    clips_done: usize,
    /// False if it was interrupted or failed.
    complete: bool,
    baseline: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    profile: Option<&'a str>,
    systems: Vec<ClosingRow<'a>>,
}

#[derive(Serialize)]
struct ClosingRow<'a> {
    #[serde(flatten)]
    summary: &'a Summary,
    lossless: bool,
    front: bool,
    method: &'a Method,
    #[serde(skip_serializing_if = "Option::is_none")]
    pruner: Option<&'a TargetPruner>,
}

impl Report {
    /// Write tables and text chart, or the last JSON line, and the SVG chart. Fails if they cannot be written.
    pub fn write<R: Reporter>(
        &self,
        loaded: &Ready,
        complete: bool,
        reporter: &mut R,
    ) -> Result<(), R::Error> {
        let summary = |system: &System| Summary::of(&system.label, BASELINE, &self.trials);
        let (systems, summaries): (Vec<&System>, Vec<Summary>) =
            self.systems.iter().filter_map(|s| Some((s, summary(s)?))).unzip();
        // A clip is done when every system has captioned it.
        let all = systems.len() == self.systems.len();
        let clips_done = summaries.iter().map(|s| s.clips).min().filter(|_| all).unwrap_or(0);
        let clips = self.seeds.end - self.seeds.start;
        let title = format!("Facts kept against decode speedup, {clips_done} clips");
        let plot = picture::plot(&summaries, &title);
        let on_front = |label: &str| plot.points().iter().any(|p| p.front && p.label == clean(label));

        let rows = systems.iter().zip(&summaries);
        let closing = Closing {
            suite: "scenes",
            loaded,
            first_seed: self.videos.is_empty().then_some(self.seeds.start),
            videos: &self.videos,
            clips,
            clips_done,
            complete,
            baseline: BASELINE,
            profile: self.profile.as_ref().map(|profile| profile.name.as_str()),
            systems: rows
                .clone()
                .map(|(system, summary)| ClosingRow {
                    summary,
                    lossless: system.lab.lossless(),
                    front: on_front(&system.label),
                    method: &system.lab.method,
                    pruner: system.lab.pruner.as_ref(),
                })
                .collect(),
        };
        reporter.line("summary", &closing)?;
        if reporter.wants_file(CHART) {
            reporter.file(CHART, &chart::svg(&plot))?;
        }
        let columns = reporter.columns();
        let mut text = hang(&self.heading(loaded, (!complete).then_some(clips_done)), columns, 2);
        if !summaries.is_empty() {
            let rows: Vec<Row<'_>> =
                rows.map(|(system, summary)| Row { summary, lossless: system.lab.lossless() }).collect();
            text += &format!("\n{}", tables::tables(&rows, self.videos.is_empty(), columns));
            if let Some(profile) = &self.profile {
                text += &format!("\n{}", modelled::table(profile, &rows, columns));
            }
        }
        if let Some(picture) = picture::text(&plot, columns) {
            text += &format!("\n{picture}");
        }
        reporter.table(&text)
    }

    /// The models and clips; with the number of completed clips if it was interrupted.
    fn heading(&self, loaded: &Ready, stopped: Option<usize>) -> String {
        let Range { start, end } = self.seeds;
        let clips = match end - start {
            n if !self.videos.is_empty() => formats::plural(n, "video"),
            1 => format!("1 clip (seed {start})"),
            n => format!("{n} clips (seeds {start} to {})", end - 1),
        };
        let stopped = stopped.map(|done| format!("stopped after {done} of ")).unwrap_or_default();
        let drafter = loaded.drafter.as_ref().map(|name| format!(" with {name}")).unwrap_or_default();
        let common = if self.common.is_empty() { String::new() } else { format!("; {}", self.common) };
        let Ready { target, device, dtype, .. } = loaded;
        let line = format!("{stopped}{clips}; {target}{drafter} on {device}, {dtype}{common}\n");
        clean(&line).into_owned()
    }
}
