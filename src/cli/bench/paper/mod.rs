//! `--paper NAME`: the papers' tables beside ours, and whether the order of their rows agrees.
//!
//! The tables are data (`assets/papers`). A run measures every method that they name once per clip; what it leaves is enough
//! to print the tables again (`--from`) and to write the page (`--markdown`).

pub mod catalog;
mod cells;
mod figure;
mod measure;
mod measures;
mod order;
mod page;
mod results;
mod saved;
mod text;

use std::io::Write;

use self::{
    catalog::{Paper, Table},
    measure::Work,
    measures::ClipRun,
    results::{Compared, Header, Results},
};
use super::{
    BASELINE, BenchArgs,
    clips::ClipRenderer,
    lines,
    output::{Lines, ResultFile},
    runs::{Loaded, Runs},
    seeds,
};
use crate::cli::{
    config::Config,
    end::End,
    interrupt::{self, Interrupt, interrupted, runtime},
    output::{progress::Progress, terminal},
    resolve,
};
use specreel_client::{Client, Settings, present};
use specreel_record::Failure;

type Tables = Vec<(&'static Paper, &'static Table)>;

/// Measure the tables of `--paper`, or read them with `--from`, and print them.
///
/// # Errors
/// There is no such paper or table, a file cannot be read or written, or a run failed.
pub fn run(mut args: BenchArgs, config: &Config) -> Result<i32, End> {
    let name = args.paper.clone().unwrap_or_default();
    let tables = catalog::find(&name, args.table.as_deref())?;
    let saved = args.from.iter().map(|path| saved::read(path)).collect::<Result<Vec<_>, _>>()?;
    let page = args.markdown.as_deref();
    let page = page.map(|path| ResultFile::create(path, "--markdown", args.force)).transpose()?;
    if !saved.is_empty() {
        let mut lines = lines(&args)?;
        return show(&tables, &saved, &mut lines, page).map(|()| 0);
    }
    let models = resolve::models(&Settings::merge(args.run.layer(), config), args.run.rope)?;
    let profile = args.profile.as_deref().map(present::modelled::load).transpose()?;
    let work = Work::of(&tables, &models)?;
    let seeds = seeds(&args)?;
    // Every run replaces the clip, the method, and what its condition says.
    args.run.method = Some(BASELINE.into());
    let base =
        resolve::request(Default::default(), &args.run, &Settings::merge(args.run.layer(), config), &models)?;
    let mut lines = lines(&args)?;
    let client = Client::start()?;
    let (interrupt, remote) = (Interrupt::default(), client.remote());
    interrupt::listen(&interrupt, move || remote.cancel_current())?;
    let mut clips = ClipRenderer::open()?;
    let mut runs = Runs::new(client, interrupt, base).with_profile(profile);
    let mut progress = Progress::new(true);
    let ignore_memory = args.run.ignore_memory;
    let (results, whole) = runtime()?.block_on(async {
        let Some(loaded) = runs.load(models, ignore_memory, &mut progress).await? else {
            return Err(End::Reported(interrupted()));
        };
        let header = Header { profile: args.profile, ..header(&name, &loaded, &seeds, &work) };
        lines.write(saved::HEADER, &header)?;
        let mut results = Results { header, runs: Vec::new() };
        let mut sink = |run: ClipRun| {
            lines.write(saved::RUN, &run)?;
            results.runs.push(run);
            Ok(())
        };
        let whole = measure::measure(&work, seeds, &mut runs, &mut clips, &mut progress, &mut sink).await;
        progress.clear();
        Ok((results, whole))
    })?;
    show(&tables, &[results], &mut lines, page)?;
    whole.map(|whole| if whole { 0 } else { interrupted() })
}

fn header(name: &str, loaded: &Loaded, seeds: &std::ops::Range<u64>, work: &Work) -> Header {
    Header {
        paper: name.into(),
        target: loaded.target.clone(),
        drafter: loaded.drafter.clone(),
        device: loaded.device.clone(),
        dtype: loaded.dtype.clone(),
        first_seed: seeds.start,
        clips: seeds.end - seeds.start,
        profile: None,
        skipped: work.skipped.clone(),
    }
}

/// Print the tables, or their JSON lines, and write the page.
fn show(tables: &Tables, all: &[Results], lines: &mut Lines, page: Option<ResultFile>) -> Result<(), End> {
    let columns = terminal::columns();
    let mut text = String::new();
    for results in all {
        text += &specreel_client::present::wrap::hang(
            &format!(
                "{}\n",
                crate::cli::output::color::plain(&cells::heading(&results.header, results.clips_done()))
            ),
            columns,
            2,
        );
        for &(paper, table) in tables {
            let compared = Compared::of(paper, table, results);
            lines.write(saved::TABLE, &compared)?;
            text += &text::table(&paper.title, &compared, columns);
        }
    }
    if let Some(mut file) = page {
        let (page, unexplained) = page::page(tables, all);
        file.append(&page)?;
        unexplained.iter().for_each(|difference| tell!("note: not explained: {difference}"));
    }
    if !lines.stdout {
        text += &text::legend(columns);
        std::io::stdout().write_all(text.as_bytes()).map_err(End::from)?;
    }
    Ok(())
}

/// Names of the papers, for completion and the help.
pub fn names() -> Vec<String> {
    catalog::names().into_iter().chain([catalog::ALL.to_owned()]).collect()
}

/// Refuse what a run of the tables does not use.
///
/// # Errors
/// The first such option (class usage).
pub fn check(args: &BenchArgs) -> Result<(), Failure> {
    let run = &args.run;
    let refused = [
        ("--methods", args.methods.is_some()),
        ("--method", run.method.is_some()),
        ("--set", !run.set.is_empty()),
        ("--sweep", !args.sweep.is_empty()),
        ("--videos", !args.videos.is_empty()),
        ("--svg", args.svg.is_some()),
        ("--frames", run.frames.is_some()),
        ("--fps", run.fps.is_some()),
        ("--temperature", run.temperature > 0.0),
    ];
    let measuring = [
        ("--clips", args.clips.is_some()),
        ("--first-seed", args.first_seed.is_some()),
        ("--profile", args.profile.is_some()),
    ];
    let usage = |error: String, hint: &str| Failure {
        class: specreel_record::FailureClass::Usage,
        error,
        hint: Some(hint.into()),
    };
    if let Some((flag, _)) = refused.into_iter().find(|(_, given)| *given) {
        return Err(usage(
            format!("{flag} cannot be used with --paper"),
            "the paper's tables say what is run",
        ));
    }
    match measuring.into_iter().find(|(_, given)| *given && !args.from.is_empty()) {
        Some((flag, _)) => {
            Err(usage(format!("{flag} cannot be used with --from"), "the file says what was measured"))
        }
        None => Ok(()),
    }
}
