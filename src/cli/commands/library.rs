//! `specreel index` and `specreel find`: what is known of a library, and the search in it.

use super::*;
use crate::cli::args::library::{FindArgs, Imported, IndexArgs};
use crate::cli::resolve::library::file;
use specreel_batch::find;
use specreel_client::moments::{Filter, Kind, Moment, MomentFinder};
use specreel_client::{Transcript, present::formats::plural};
use specreel_library::{Import, Index, IndexFile, lists};
use specreel_record::{Span, clock};

/// Exit code if nothing was found.
const NOTHING: i32 = 1;

/// Extensions of files with captions and with speech next to a video, the best first.
const CAPTIONS: [&str; 3] = ["srt", "vtt", "txt"];
const SPEECH: [&str; 3] = ["srt", "vtt", "json"];

/// Longest text file that is taken for a caption, in bytes.
const MAX_TEXT: u64 = 1 << 20;

/// Caption what is not in the index, or take in what is known of it.
pub fn index(args: IndexArgs, config: &Config) -> Result<i32, End> {
    let path = file(args.db.as_deref())?;
    let directories: Vec<PathBuf> = args.videos.iter().filter(|path| path.is_dir()).cloned().collect();
    let quiet = args.quiet || args.json;
    let is_dry = args.dry_run;
    let code = match args.import {
        Some(what) => import(&mut Index::open(&path)?, &args, what)?,
        None => super::batch::run_into(&args.caption(), config, Some(Box::new(Index::open(&path)?)))?,
    };
    let mut index = Index::open(&path)?;
    if !is_dry {
        index.sweep(&directories)?;
    }
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

/// Take in the files next to the videos.
fn import(index: &mut Index, args: &IndexArgs, what: Imported) -> Result<i32, End> {
    let (kind, endings) = match what {
        Imported::Captions => (Kind::Seen, CAPTIONS),
        Imported::Speech => (Kind::Said, SPEECH),
    };
    let found = find::find(&args.videos, &|_| Ok(None))?;
    let (mut imported, mut had, mut none, mut failed) = (0, 0, 0, found.unreadable.len() as u64);
    for clip in &found.clips {
        let video = clip.path();
        let files = endings.iter().map(|ending| video.with_extension(ending));
        let Some(file) = files.into_iter().find(|file| file.is_file()) else {
            none += 1;
            continue;
        };
        let taken = lines(&file).and_then(|lines| {
            let import = Import { kind, from: file.display().to_string(), lines };
            index.import(clip, &import)
        });
        match taken {
            Ok(true) => imported += 1,
            Ok(false) => had += 1,
            Err(failure) => {
                failed += 1;
                tell!("failed: {}", color::plain(&failure.error));
            }
        }
    }
    if args.json {
        let line = json!({ "imported": imported, "skipped": had, "without": none, "failed": failed });
        print(&format!("{line}\n"))?;
    } else if !args.quiet {
        let videos = plural(found.clips.len() as u64, "video");
        tell!("{videos}: {imported} imported, {had} had captions, {none} without a file, {failed} failed");
    }
    Ok(if failed > 0 { super::batch::SOME_FAILED } else { 0 })
}

/// The lines of a file next to a video.
fn lines(file: &Path) -> Result<Vec<(Option<Span>, String)>, Failure> {
    if file.extension().is_some_and(|ending| ending == "txt") {
        let what = format!("caption {}", file.display());
        let hint = "a caption is a text of at most 1 MiB";
        let bytes = specreel_client::read_user_file(file, &what, MAX_TEXT, hint)?;
        return Ok(vec![(None, String::from_utf8_lossy(&bytes).into_owned())]);
    }
    let transcript = Transcript::read(file)?;
    Ok(transcript.lines().map(|(span, text)| (Some(span), text.to_owned())).collect())
}

/// Print the moments that have the words.
pub fn moments(args: &FindArgs) -> Result<i32, End> {
    let typed = args.words.join(" ");
    let path = file(args.db.as_deref())?;
    let filter = Filter { missing: args.missing, ..args.filter.below(&args.r#in) };
    let hits = IndexFile(path.clone()).find(&typed, &filter, args.limit as usize)?;
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
