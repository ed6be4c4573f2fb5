//! `specreel index` and `specreel find`: what is known of a library, and the search in it.

mod import;
mod meaning;

use super::*;
use crate::cli::args::library::{FindArgs, IndexArgs};
use crate::cli::args::run::RunArgs;
use crate::cli::resolve::library::file;
use specreel_client::Layer;
use specreel_client::moments::{Filter, Moment, MomentFinder, joined};
use specreel_client::present::formats::plural;
use specreel_library::{Index, IndexFile, lists};
use specreel_record::{Span, clock};

/// Exit code if nothing was found.
const NOTHING: i32 = 1;

/// Caption what is not in the index, or take in what is known of it.
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
    let mut hits = finder.find(&typed, &filter, most)?;
    if args.meaning {
        let settings = Settings::merge(Layer { target: args.target.clone(), ..Layer::default() }, config);
        // Before the model is loaded for nothing.
        if finder.meaning_model()?.is_none() {
            return Err(Failure::usage(
                "--meaning: the index does not know what captions are about",
                "run `specreel index` again, without --no-meaning",
            )
            .into());
        }
        let Some(meaning) = meaning::of(&typed, &settings, &RunArgs::default(), !args.json)? else {
            return Ok(interrupted());
        };
        hits = joined([hits, finder.near(&meaning, &filter, most)?], most);
    }
    let text = match args {
        FindArgs { json: true, .. } => {
            let hits: Vec<Value> = hits.iter().map(Moment::json).collect();
            format!("{}\n", json!({ "query": typed, "moments": hits }))
        }
        FindArgs { m3u: true, .. } => lists::m3u(&hits),
        FindArgs { edl: true, .. } => lists::edl(&hits),
        _ => hits.iter().map(|hit| line(hit, terminal::color_stdout(Default::default()))).collect(),
    };
    print(&text)?;
    if let Some(dir) = args.clip.as_deref().filter(|_| !hits.is_empty()) {
        return extract(&hits, dir);
    }
    if !hits.is_empty() {
        return Ok(0);
    }
    nothing(&path, args.json)
}

/// Copy the moments into files in a directory, which is created if it is not there.
fn extract(moments: &[Moment], dir: &Path) -> Result<i32, End> {
    std::fs::create_dir_all(dir).map_err(|error| {
        Failure::input(format!("--clip {}: {error}", dir.display()), "name a directory that can be written")
    })?;
    let mut failed = 0;
    for moment in moments {
        let name = moment.path.file_stem().unwrap_or_default().to_string_lossy();
        let span = match moment.end {
            Some(end) => Span { start: moment.start, end },
            None => Span { start: 0.0, end: f64::MAX },
        };
        let stem = format!("{name} {}", clock(moment.start).replace(':', "."));
        match specreel_video::extract(&moment.path, span, dir, &stem) {
            Ok(path) => tell!("{}", color::plain(&path.to_string_lossy())),
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

/// One line, with what was looked for in bold.
fn line(moment: &Moment, is_colored: bool) -> String {
    let line = moment.line(|part| match color::plain(&part.text) {
        text if part.is_match && is_colored => format!("\x1b[1m{text}\x1b[0m"),
        text => text.into_owned(),
    });
    line + "\n"
}
