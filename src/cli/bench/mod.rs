//! `specreel bench`: measured tables.
//!
//! `--suite scenes` measures the speed and the accuracy of methods on clips whose facts are known; `--suite step` times single
//! passes, `--suite clip` a whole clip with random weights. `--paper` measures the tables of papers. stdout gets the tables, or JSON lines; an interrupted benchmark prints what is done.

pub mod args;
mod clip;
mod clips;
mod fronts;
mod modelled;
mod output;
pub mod paper;
mod picture;
mod plan;
mod report;
mod runs;
mod scenes;
mod step;
mod sweep;
mod tables;
mod videos;

use std::ops::Range;

pub use args::BenchArgs;

use self::{
    args::Suite,
    clips::ClipRenderer,
    output::{Lines, ResultFile},
    plan::{BASELINE, Plan},
    report::Report,
    runs::Runs,
    scenes::Clips,
    videos::OwnVideos,
};
use super::{config::Config, interrupt::Interrupt, resolve};
use crate::cli::{
    end::End,
    interrupt::{self, interrupted, runtime},
    output::progress::Progress,
};
use specreel_client::{Client, Settings, present};
use specreel_record::{Failure, FailureClass, Trial};
use specreel_scenes::world::TRAINING_SEEDS;

const CLIPS: u32 = 20;
const FIRST_SEED: u64 = 1000;

/// Run a benchmark.
pub fn run(mut args: BenchArgs, config: &Config) -> Result<i32, End> {
    args.check()?;
    if args.paper.is_some() {
        return paper::run(args, config);
    }
    let run = &args.run;
    let models = resolve::models(&Settings::merge(run.layer(), config), run.rope)?;
    if args.suite != Suite::Scenes {
        let mut lines = lines(&args)?;
        return match args.suite {
            Suite::Clip => clip::run(&args, &models, &mut lines),
            _ => step::run(&args, &models, &mut lines),
        };
    }
    let profile = args.profile.as_deref().map(present::modelled::load).transpose()?;
    let methods = args.methods.take().or(args.run.method.take());
    let plan = Plan::new(methods.as_deref(), &args.run.set, &args.sweep, &models)?;
    let own = match &args.videos[..] {
        [] => None,
        videos => Some(OwnVideos::find(videos, args.clips)?),
    };
    let seeds = match &own {
        Some(own) => 0..own.count() as u64,
        None => seeds(&args)?,
    };
    // Every run replaces the clip and the method of this request.
    args.run.method = Some(BASELINE.into());
    args.run.set.clear();
    let settings = Settings::merge(args.run.layer(), config);
    let base = resolve::request(Default::default(), &args.run, &settings, &models)?;
    let svg = args.svg.as_deref().map(|path| ResultFile::create(path, "--svg", args.force)).transpose()?;
    let lines = lines(&args)?;
    if !plan.skipped.is_empty() {
        tell!("hint: skipped without a drafter: {}", plan.skipped.join(", "));
    }

    plan.notes.iter().for_each(|note| tell!("note: {note}"));
    let methods: Vec<&specreel_speculate::Method> =
        plan.systems.iter().map(|system| &system.method).collect();
    resolve::tell_unused(&args.run, &methods, args.json);

    let client = Client::start()?;
    let (interrupt, remote) = (Interrupt::default(), client.remote());
    interrupt::listen(&interrupt, move || remote.cancel_current())?;
    let videos = own.as_ref().map(OwnVideos::names).unwrap_or_default();
    let mut clips: Box<dyn Clips> = match own {
        Some(own) => Box::new(own),
        None => Box::new(ClipRenderer::open()?),
    };
    let mut runs = Runs::new(client, interrupt, base).with_profile(profile.clone());
    let (common, systems, trials) = (plan.common, plan.systems, Vec::new());
    let mut report = Report { lines, svg, seeds, videos, common, profile, systems, trials };
    let mut progress = Progress::new(true);
    runtime()?.block_on(async {
        let Some(loaded) = runs.load(models, args.run.ignore_memory, &mut progress).await? else {
            return Err(End::Reported(interrupted()));
        };
        let Report { lines, systems, trials, seeds, .. } = &mut report;
        let mut sink = |trial: Trial| {
            lines.write("trial", &trial)?;
            trials.push(trial);
            Ok(())
        };
        let whole =
            scenes::measure(systems, seeds.clone(), &mut runs, &mut *clips, &mut progress, &mut sink).await;
        progress.clear();
        report.print(&loaded, matches!(whole, Ok(true)))?;
        whole.map(|whole| if whole { 0 } else { interrupted() })
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
        error: format!("--first-seed {first} is too large for {clips} clips"),
        hint: Some(format!("the default is {FIRST_SEED}")),
    })?;
    if end > TRAINING_SEEDS.start {
        tell!("hint: the embedded models were trained on seeds from {}", TRAINING_SEEDS.start);
    }
    Ok(first..end)
}
