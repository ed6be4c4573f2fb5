//! `specreel-lab bench`: arguments and outputs of [`specreel_bench`].
//!
//! stdout gets the tables, or JSON lines; an interrupted benchmark prints its results so far.

mod output;

use std::{
    collections::BTreeMap,
    fs,
    ops::Range,
    path::{Path, PathBuf},
};

use self::output::{Output, result_file, whole_file};
use crate::{
    args::bench::{BenchArgs, Suite},
    methods::find,
};
use specreel::{
    cli::{
        config::Config,
        end::End,
        interrupt::{self, interrupted, listen, runtime},
        output::{new_file::OutputFile, progress::Progress},
        resolve,
    },
    tell,
};
use specreel_bench::{
    BASELINE, CHART,
    clip::{self, ClipOptions},
    device::{self, DeviceOptions},
    paper::{self, Earlier, PaperOptions},
    plan::Plan,
    quality::{self, QualityOptions},
    runs::{Runs, Setup},
    scenes::{self, Source},
    step::{self, StepOptions},
    videos::OwnVideos,
};
use specreel_client::{Settings, catalog};
use specreel_model::{ModelSpec, processor::FrameLimits, shapes};
use specreel_modelled::profile::Profile;
use specreel_record::{Failure, OnLoop};
use specreel_scenes::world::TRAINING_SEEDS;
use specreel_speculate::{Method, SamplingBase};
use specreel_video::Sampling;

const CLIPS: u32 = 20;
const FIRST_SEED: u64 = 1000;

pub fn run(args: BenchArgs, config: &Config) -> Result<i32, End> {
    args.check()?;
    let whole = match (&args.paper, args.suite) {
        (Some(_), _) => papers(args, config),
        (None, Suite::Scenes) => methods(args, config),
        (None, suite) => {
            let models = models(&args, config)?;
            let mut output = output(&args, BTreeMap::new())?;
            match suite {
                Suite::Clip => {
                    let options = clip_options(&args)?;
                    clip::run(&options, &models, &listen(|| {})?, &mut output)
                }
                Suite::Quality => {
                    let options = quality_options(&args)?;
                    quality::run(&options, &models, &listen(|| {})?, &mut output)
                }
                Suite::Device => {
                    let StepOptions { shape, rows, slots, .. } = step_options(&args);
                    device::run(&DeviceOptions { shape, rows, slots }, &models, &listen(|| {})?, &mut output)
                }
                _ => step::run(&step_options(&args), &models, &listen(|| {})?, &mut output),
            }
        }
    }?;
    Ok(if whole { 0 } else { interrupted() })
}

/// Measure methods on clips. False if it was interrupted.
fn methods(mut args: BenchArgs, config: &Config) -> Result<bool, End> {
    let models = models(&args, config)?;
    let profile = args.profile.as_deref().map(specreel_modelled::load).transpose()?;
    let methods = args.methods.take().or(args.run.method.take());
    let plan = Plan::new(methods.as_deref(), &args.run.set, &args.sweep, &models, &find)?;
    let source = match &args.videos[..] {
        [] => Source::Scenes(seeds(&args)?, args.seconds),
        videos => {
            let warm_up = resolve::video("demo".as_ref())?;
            let note = &mut |note: &str| tell!("note: {note}");
            Source::Videos(OwnVideos::find(videos, args.clips, warm_up, note)?)
        }
    };
    // Every run replaces the clip and the method of this request.
    args.run.set.clear();
    let setup = setup(&mut args, config, models, profile.into_iter().collect())?;
    let svg = args.svg.as_deref().map(|path| whole_file(path, "--svg", args.force)).transpose()?;
    let mut output = output(&args, svg.map(|file| (CHART.to_owned(), file)).into_iter().collect())?;
    if !plan.skipped.is_empty() {
        tell!("hint: skipped without a drafter: {}", plan.skipped.join(", "));
    }
    plan.notes.iter().for_each(|note| tell!("note: {note}"));
    let methods: Vec<&Method> = plan.systems.iter().map(|system| &system.lab.method).collect();
    resolve::tell_unused(&args.run, &methods, args.json);
    let runs = runs(setup)?;
    runtime()?.block_on(scenes::run(plan, source, runs, &mut output))
}

/// Measure the tables of `--paper`, or read them with `--from`. False if it was interrupted.
fn papers(mut args: BenchArgs, config: &Config) -> Result<bool, End> {
    let name = args.paper.clone().unwrap_or_default();
    let tables = paper::find(&name, args.table.as_deref())?;
    if args.at_paper_acceptance {
        return paper::replay::report(&tables, &mut output(&args, BTreeMap::new())?).map(|()| true);
    }
    let mut saved = args.from.iter().map(|path| paper::read(path)).collect::<Result<Vec<_>, _>>()?;
    for path in &args.also {
        let also = paper::read(path)?;
        saved.iter_mut().try_for_each(|own| own.fill(&also))?;
    }
    // Read them before they are replaced.
    let earlier = args.pages.as_deref().map(Earlier::read).transpose()?.unwrap_or_default();
    let files = args.pages.as_deref().map(|dir| pages(dir, &tables, args.force)).transpose()?;
    let files = files.unwrap_or_default();
    if !saved.is_empty() {
        return paper::show(&tables, &saved, &earlier, &mut output(&args, files)?).map(|()| true);
    }
    let models = models(&args, config)?;
    let work = paper::Work::of(&tables, &models)?;
    let (seeds, seconds) = (seeds(&args)?, args.seconds);
    // Every run replaces the clip, the method, and what its condition says.
    let setup = setup(&mut args, config, models, paper::profiles(&tables)?)?;
    let mut output = output(&args, files)?;
    let runs = runs(setup)?;
    let options = PaperOptions { name, tables, work, seeds, seconds, earlier };
    runtime()?.block_on(paper::run(options, runs, &mut output))
}

/// The files of `--pages`, by name. Fails if one cannot be created.
fn pages(dir: &Path, tables: &paper::Tables, force: bool) -> Result<BTreeMap<String, OutputFile>, Failure> {
    let file = |name: String| {
        let path = dir.join(&name);
        path.parent().map_or(Ok(()), fs::create_dir_all).map_err(|error| {
            Failure::input(format!("--pages: cannot create {}: {error}", dir.display()), "name a directory")
        })?;
        Ok((name, whole_file(&path, "--pages", force)?))
    };
    paper::pages::names(tables).into_iter().map(file).collect()
}

fn models(args: &BenchArgs, config: &Config) -> Result<ModelSpec, Failure> {
    catalog::spec(&Settings::merge(args.run.layer(), config), args.run.rope)
}

/// What the runs share: a request of the baseline.
fn setup(
    args: &mut BenchArgs,
    config: &Config,
    models: ModelSpec,
    profiles: Vec<Profile>,
) -> Result<Setup, Failure> {
    args.run.method = Some(BASELINE.into());
    let settings = Settings::merge(args.run.layer(), config);
    let mut request = resolve::request(Default::default(), &args.run, &settings, &models)?;
    // Methods are measured on the models' own distributions, up to the limit, unless the command line says otherwise.
    if settings.sampling.value.is_none() {
        request.text.base = SamplingBase::Greedy;
    }
    request.on_loop = settings.on_loop.or(OnLoop::Keep);
    Ok(Setup { models, ignore_memory: args.run.ignore_memory, request, profiles })
}

fn runs(setup: Setup) -> Result<Runs, End> {
    let (client, interrupt) = interrupt::engine()?;
    Ok(Runs::new(client, interrupt, setup))
}

fn output(args: &BenchArgs, files: BTreeMap<String, OutputFile>) -> Result<Output, Failure> {
    let lines = result_file(args.out.as_deref(), "--out", args.force)?;
    Ok(Output { progress: Progress::new(true), json: args.json, lines, files })
}

fn seeds(args: &BenchArgs) -> Result<Range<u64>, Failure> {
    let (first, clips) = (args.first_seed.unwrap_or(FIRST_SEED), u64::from(args.clips.unwrap_or(CLIPS)));
    let end = first.checked_add(clips).ok_or_else(|| {
        Failure::usage(
            format!("--first-seed {first} is too large for {clips} clips"),
            format!("the default is {FIRST_SEED}"),
        )
    })?;
    if end > TRAINING_SEEDS.start {
        tell!("hint: the embedded models were trained on seeds from {}", TRAINING_SEEDS.start);
    }
    Ok(first..end)
}

fn step_options(args: &BenchArgs) -> StepOptions {
    let sizes = |numbers: &[u32]| numbers.iter().map(|n| *n as usize).collect();
    StepOptions {
        slots: sizes(&args.slots),
        rows: sizes(&args.rows),
        shape: args.shape.clone(),
        drafter_shape: args.drafter_shape.clone(),
        explain: args.explain,
    }
}

fn quality_options(args: &BenchArgs) -> Result<QualityOptions, Failure> {
    let read = |path: &PathBuf| {
        std::fs::read_to_string(path).map_err(|e| {
            Failure::input(format!("{}: {e}", path.display()), "pass a file of plain text in UTF-8 to --text")
        })
    };
    let base = QualityOptions::default();
    Ok(QualityOptions {
        text: args.text.as_ref().map(read).transpose()?,
        tokens: args.tokens.map_or(base.tokens, |n| n as usize),
        dtypes: args.dtypes.clone(),
        kv_types: args.kv_types.clone(),
        tower_dtypes: args.tower_dtypes.clone(),
        files: args.gguf.clone(),
    })
}

fn clip_options(args: &BenchArgs) -> Result<ClipOptions, Failure> {
    let shape = args.shape.as_deref().ok_or_else(|| {
        Failure::usage("--suite clip needs --shape NAME", format!("shapes: {}", shapes::names().join(", ")))
    })?;
    let (run, base) = (&args.run, ClipOptions::new(shape));
    Ok(ClipOptions {
        seconds: args.seconds.unwrap_or(base.seconds),
        size: args.size.unwrap_or(base.size),
        sampling: match (run.frames, run.fps) {
            (Some(n), _) => Sampling::Frames(n as usize),
            (None, Some(fps)) => Sampling::Fps(fps),
            (None, None) => Sampling::Auto,
        },
        limits: FrameLimits {
            pixels: run.max_pixels.map(|n| n as usize),
            tokens: run.max_visual_tokens.map(|n| n as usize),
        },
        tokens: run.max_new_tokens.map_or(base.tokens, |n| n as usize),
        ..base
    })
}
