//! `specreel index` and `specreel find`: builds the index of a library, and searches it.

mod import;
mod meaning;

pub use import::keeping_runs;

use super::*;
use crate::cli::args::library::{FindArgs, IndexArgs};
use crate::cli::args::run::RunArgs;
use crate::cli::resolve::library::file;
use specreel_client::moments::{Filter, Moment, MomentFinder, Reader, Search};
use specreel_client::present::formats::plural;
use specreel_library::{Index, IndexFile, lists};
use specreel_record::{Span, clock};

/// Exit code if nothing was found.
const NOTHING: i32 = 1;

/// Caption videos that are not in the index, or import existing captions.
pub fn index(args: IndexArgs, config: &Config) -> Result<i32, End> {
    let path = file(args.db.as_deref())?;
    let directories: Vec<PathBuf> = args.videos.iter().filter(|path| path.is_dir()).cloned().collect();
    let quiet = args.quiet || args.json;
    let (is_dry, no_meaning) = (args.dry_run, args.no_meaning || args.import.is_some());
    let (settings, run) = (Settings::merge(args.run.layer(), config), args.run.loading());
    let code = match &args.import {
        Some(what) => import::import(&mut Index::open(&path)?, &args, what)?,
        None => super::batch::run_into(&args.caption(), config, Some(Box::new(Index::open(&path)?)))?,
    };
    let mut index = Index::open(&path)?;
    if !is_dry {
        index.sweep(&directories)?;
    }
    let is_whole = code == 0 || code == super::batch::SOME_FAILED;
    let code = match is_whole && !is_dry && !no_meaning {
        false => code,
        true => match meaning::read(&mut index, &settings, &run, !quiet)? {
            0 => code,
            stopped => stopped,
        },
    };
    if !quiet {
        let totals = index.totals()?;
        let missing = match totals.missing {
            0 => String::new(),
            missing => format!(", {missing} of them no longer there"),
        };
        let (videos, captions) = (plural(totals.videos, "video"), plural(totals.captions, "caption"));
        tell!("index {}: {captions} of {videos}{missing}", color::plain(&path.to_string_lossy()));
    }
    Ok(code)
}

/// Print the moments that have the words.
pub fn moments(args: &FindArgs, config: &Config) -> Result<i32, End> {
    let typed = args.words.join(" ");
    let path = file(args.db.as_deref())?;
    let filter = Filter { missing: args.missing, ..args.filter.below(&args.r#in) };
    let (finder, most) = (IndexFile(path.clone()), args.limit as usize);
    let search = |read: Option<Reader<'_>>| finder.find(&typed, Search { filter: &filter, most, read });
    let mut found = search(None)?;
    if args.meaning {
        let run = args.loading();
        let (models, name) = target_alone(&Settings::merge(run.layer(), config), &run)?;
        check_meanings(&finder, &name)?;
        let Some((client, _)) = loaded(models, &run, !args.json)? else { return Ok(interrupted()) };
        let remote = client.remote();
        found = search(Some(&|text| remote.meaning(text, None)))?;
    }
    let text = match args {
        FindArgs { json: true, .. } => {
            let found: Vec<Value> = found.iter().map(Moment::json).collect();
            format!("{}\n", json!({ "query": typed, "moments": found }))
        }
        FindArgs { m3u: true, .. } => lists::m3u(&found),
        FindArgs { edl: true, .. } => lists::edl(&found),
        _ => found.iter().map(|moment| line(moment, terminal::color_stdout(Default::default()))).collect(),
    };
    print(&text)?;
    if let Some(dir) = args.clip.as_deref().filter(|_| !found.is_empty()) {
        return extract(&found, dir);
    }
    if !found.is_empty() {
        return Ok(0);
    }
    nothing(&path, args.json)
}

/// The target of these settings without its drafters, and its name.
pub(super) fn target_alone(settings: &Settings, run: &RunArgs) -> Result<(ModelSpec, String), Failure> {
    let models = ModelSpec { drafter: None, heads: Vec::new(), ..catalog::spec(settings, run.rope)? };
    let name = models.target_files()?.name();
    Ok((models, name))
}

/// Fails if an index has no meanings of a model (class usage).
fn check_meanings(finder: &IndexFile, model: &str) -> Result<(), Failure> {
    let known = finder.meaning_models()?;
    let (error, hint) = match &known[..] {
        known if known.iter().any(|known| known == model) => return Ok(()),
        [] => (
            "--meaning: the index has no meanings".to_owned(),
            "run `specreel index VIDEO…` without --import and --no-meaning, with a target that can search by meaning; this also \
             captions videos that have no captions",
        ),
        known => (
            format!("--meaning: the index has meanings of {}, not of {model}", known.join(", ")),
            "pass that model with --target, or run `specreel index` with this one",
        ),
    };
    Err(Failure::usage(error, hint))
}

/// A client of an engine that has loaded these models. `None` if loading was interrupted.
pub(super) fn loaded(
    models: ModelSpec,
    run: &RunArgs,
    is_shown: bool,
) -> Result<Option<(Client, Interrupt)>, End> {
    let mut client = Client::start()?;
    let remote = client.remote().downgrade();
    let interrupt = listen(move || {
        remote.cancel(0);
        remote.cancel_current();
    })?;
    client.keep_speeds(Dirs::speeds())?;
    let mut progress = Progress::new(is_shown);
    let mut on = |event: &EventKind| {
        if let EventKind::Stage { stage, done, total, left_ms } = event {
            progress.stage_with(*stage, *done, *total, *left_ms);
        }
    };
    let ready = runtime()?.block_on(client.load_and_wait(models, run.ignore_memory, &mut on, &interrupt));
    progress.clear();
    match ready {
        Err(_) if interrupt.asked() => Ok(None),
        ready => Ok(ready?.map(|_| (client, interrupt))),
    }
}

/// Copy the moments into files in a directory, which is created if it does not exist.
fn extract(moments: &[Moment], dir: &Path) -> Result<i32, End> {
    std::fs::create_dir_all(dir).map_err(|error| {
        Failure::input(format!("--clip {}: {error}", dir.display()), "pass a writable directory")
    })?;
    let interrupt = listen(|| {})?;
    let (mut failed, mut seen) = (0, Vec::new());
    for moment in moments {
        // A caption and speech may be of the same moment.
        let place = (&moment.path, moment.start, moment.end);
        if seen.contains(&place) {
            continue;
        }
        seen.push(place);
        let name = moment.path.file_stem().unwrap_or_default().to_string_lossy();
        let span = match moment.end {
            Some(end) => Span { start: moment.start, end },
            None => Span { start: 0.0, end: f64::MAX },
        };
        let stem = format!("{name} {}", clock(moment.start).replace(':', "."));
        match specreel_video::extract(&moment.path, span, dir, &stem, &|| interrupt.asked()) {
            Ok(path) => tell!("{}", color::plain(&path.to_string_lossy())),
            Err(specreel_video::Error::Interrupted) => return Ok(interrupted()),
            Err(error) => {
                failed += 1;
                let Failure { error, hint, .. } = error.into();
                tell!("failed: {}; {}", color::plain(&error), hint.unwrap_or_default());
            }
        }
    }
    Ok(if failed > 0 { super::batch::SOME_FAILED } else { 0 })
}

/// Say that nothing was found in an index, and return the exit code.
pub(super) fn nothing(index: &Path, is_quiet: bool) -> Result<i32, End> {
    if !is_quiet {
        let totals = Index::open_to_read(index)?.totals()?;
        let (captions, videos) = (plural(totals.captions, "caption"), plural(totals.videos, "video"));
        tell!("nothing found in {captions} of {videos}");
    }
    Ok(NOTHING)
}

/// One line, with matches in bold.
fn line(moment: &Moment, is_colored: bool) -> String {
    let line = moment.line(|part| match color::plain(&part.text) {
        text if part.is_match && is_colored => format!("\x1b[1m{text}\x1b[0m"),
        text => text.into_owned(),
    });
    line + "\n"
}
