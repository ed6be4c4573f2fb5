//! `specreel bench`: measured tables.
//!
//! `--suite scenes` runs methods on clips whose facts are known and says how fast they are and what that costs; `--suite
//! step` times single passes. stdout is the tables, or JSON lines; what is done when it is interrupted is printed all the
//! same. Nothing here decodes: runs go through the engine like any other.

pub mod args;
mod clips;
mod fronts;
mod grid;
mod output;
mod picture;
mod plan;
mod runs;
mod scenes;
mod step;
mod stop;
mod sweep;
mod tables;

use std::{io::Write, ops::Range};

use serde::Serialize;

pub use args::BenchArgs;

use self::{
    args::Suite,
    clips::Workshop,
    output::{Lines, ResultFile},
    plan::{BASELINE, Plan, System},
    runs::{Loaded, Runs},
    stop::Stop,
    tables::Row,
};
use super::{End, INTERRUPTED, Ports, config::Config, progress::Progress, resolve};
use crate::{
    chart,
    record::{Failure, FailureClass, Summary, Trial},
    scenes::world::TRAINING_SEEDS,
    speculate::Method,
};

const CLIPS: u32 = 20;
const FIRST_SEED: u64 = 1000;

/// Measure.
pub fn run(mut args: BenchArgs, config: &Config, ports: &Ports) -> Result<i32, End> {
    args.check()?;
    let run = &args.run;
    let models = resolve::models(run.target.as_deref(), run.drafter.as_deref(), run, config)?;
    if args.suite == Suite::Step {
        let mut lines = lines(&args)?;
        return step::run(&args, &models, &mut lines);
    }
    let methods = args.methods.take().or(args.run.method.take());
    let plan = Plan::new(methods.as_deref(), &args.run.set, &args.sweep, &models)?;
    let seeds = seeds(&args)?;
    // The request of the baseline; every run has its own clip and method.
    args.run.method = Some(BASELINE.into());
    args.run.set.clear();
    let base = resolve::request(Default::default(), &args.run, config, &models)?;
    let svg = args.svg.as_deref().map(|path| ResultFile::create(path, "--svg", args.force)).transpose()?;
    let lines = lines(&args)?;
    if !plan.skipped.is_empty() {
        eprintln!("hint: without a drafter these are left out: {}", plan.skipped.join(", "));
    }

    let (engine, events) = (ports.engine)()?;
    let stop = Stop::new(Some(engine.clone()));
    let interrupt = stop.listen()?;
    let mut clips = Workshop::open()?;
    let mut runs = Runs::new((engine, events), stop, interrupt, base);
    let mut report = Report { lines, svg, seeds, systems: plan.systems, trials: Vec::new() };
    let mut progress = Progress::new(true);
    tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
        let Some(loaded) = runs.load(models, &mut progress).await? else {
            return Err(End::Reported(INTERRUPTED));
        };
        let Report { lines, systems, trials, seeds, .. } = &mut report;
        let mut sink = |trial: Trial| {
            lines.write("trial", &trial)?;
            trials.push(trial);
            Ok(())
        };
        let whole =
            scenes::measure(systems, seeds.clone(), &mut runs, &mut clips, &mut progress, &mut sink).await;
        progress.clear();
        report.print(&loaded, !matches!(whole, Ok(true)))?;
        whole.map(|whole| if whole { 0 } else { INTERRUPTED })
    })
}

fn lines(args: &BenchArgs) -> Result<Lines, Failure> {
    let file = args.out.as_deref().map(|path| ResultFile::create(path, "--out", args.force)).transpose()?;
    Ok(Lines { stdout: args.json, file })
}

/// The seeds of the clips.
fn seeds(args: &BenchArgs) -> Result<Range<u64>, Failure> {
    let (first, clips) = (args.first_seed.unwrap_or(FIRST_SEED), u64::from(args.clips.unwrap_or(CLIPS)));
    let end = first.checked_add(clips).ok_or_else(|| Failure {
        class: FailureClass::Usage,
        error: format!("--first-seed {first} leaves no room for {clips} clips"),
        hint: Some(format!("the default is {FIRST_SEED}")),
    })?;
    if end > TRAINING_SEEDS.start {
        eprintln!("hint: the embedded models were trained on seeds from {} on", TRAINING_SEEDS.start);
    }
    Ok(first..end)
}

/// What has been measured so far, and where it goes.
struct Report {
    lines: Lines,
    svg: Option<ResultFile>,
    seeds: Range<u64>,
    systems: Vec<System>,
    trials: Vec<Trial>,
}

/// The last JSON line.
#[derive(Serialize)]
struct Closing<'a> {
    suite: &'static str,
    #[serde(flatten)]
    loaded: &'a Loaded,
    first_seed: u64,
    clips: u64,
    clips_done: usize,
    interrupted: bool,
    baseline: &'static str,
    systems: Vec<ClosingRow<'a>>,
}

#[derive(Serialize)]
struct ClosingRow<'a> {
    #[serde(flatten)]
    summary: &'a Summary,
    lossless: bool,
    front: bool,
    method: &'a Method,
}

impl Report {
    fn print(&mut self, loaded: &Loaded, interrupted: bool) -> Result<(), End> {
        let summary = |system: &System| Summary::of(&system.label, BASELINE, &self.trials);
        let (systems, summaries): (Vec<&System>, Vec<Summary>) =
            self.systems.iter().filter_map(|s| Some((s, summary(s)?))).unzip();
        let whole = |s: &Summary| s.clips;
        let clips_done = if systems.len() == self.systems.len() {
            summaries.iter().map(whole).min().unwrap_or(0)
        } else {
            0
        };
        let clips = self.seeds.end - self.seeds.start;
        let title = format!("Facts kept against decode speed-up, {clips_done} clips");
        let plot = picture::plot(&summaries, &title);
        let on_front = |label: &str| plot.points().iter().any(|p| p.front && p.label == label);

        let rows = systems.iter().zip(&summaries);
        let closing = Closing {
            suite: "scenes",
            loaded,
            first_seed: self.seeds.start,
            clips,
            clips_done,
            interrupted,
            baseline: BASELINE,
            systems: rows
                .clone()
                .map(|(system, summary)| ClosingRow {
                    summary,
                    lossless: system.method.lossless(),
                    front: on_front(&system.label),
                    method: &system.method,
                })
                .collect(),
        };
        self.lines.write("summary", &closing)?;
        if let Some(svg) = &mut self.svg {
            svg.append(&chart::svg(&plot))?;
        }
        if self.lines.stdout {
            return Ok(());
        }
        let models = match &loaded.drafter {
            Some(drafter) => format!("{} with {drafter}", loaded.target),
            None => loaded.target.clone(),
        };
        let stopped = if interrupted { format!("stopped after {clips_done} of ") } else { String::new() };
        let mut text = format!(
            "{stopped}{clips} clips (seeds {} to {}); {models} on {}, {}\n",
            self.seeds.start,
            self.seeds.end - 1,
            loaded.device,
            loaded.dtype
        );
        if !summaries.is_empty() {
            let rows: Vec<Row<'_>> =
                rows.map(|(system, summary)| Row { summary, lossless: system.method.lossless() }).collect();
            text += &format!("\n{}", tables::tables(&rows));
        }
        if let Some(picture) = picture::text(&plot) {
            text += &format!("\n{picture}");
        }
        std::io::stdout().write_all(text.as_bytes())?;
        Ok(())
    }
}
