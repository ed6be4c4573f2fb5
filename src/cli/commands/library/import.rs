//! Imports captions that were made before: files next to the videos, data sets, saved runs.

use std::collections::BTreeMap;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, SystemTime};

use super::*;
use crate::cli::args::library::Imported;
use crate::cli::resolve::library::made;
use specreel_batch::{Clip, Store, dataset::Dataset, find, rows::Caption};
use specreel_client::moments::{Kind, question};
use specreel_client::{Transcript, present::export::timed};
use specreel_library::Import;
use specreel_record::{Session, session::SessionError};

/// Extensions of files with captions and with speech next to a video, in order of preference.
const CAPTIONS: [&str; 3] = ["srt", "vtt", "txt"];
const SPEECH: [&str; 3] = ["srt", "vtt", "json"];

/// Largest text file that is read as a caption, in bytes.
const MAX_TEXT: u64 = 1 << 20;

/// The captions of videos, by paths without links.
type Known = BTreeMap<PathBuf, Vec<Caption>>;

/// The outcome for a video.
#[derive(Clone, Copy)]
enum Taken {
    Imported,
    /// It already had such captions.
    Had,
    /// No captions were found for it.
    None,
}

/// Import the captions of the videos.
pub(super) fn import(index: &mut Index, args: &IndexArgs, what: &Imported) -> Result<i32, End> {
    let known = match what {
        Imported::Captions | Imported::Speech => Known::default(),
        Imported::Runs => {
            let sessions = Dirs::find().map(|dirs| dirs.data.join("sessions"));
            runs_in(&sessions.filter(|dir| dir.is_dir()).unwrap_or_default(), None, &skipped)?
        }
        Imported::File(path) if !path.exists() => {
            return Err(Failure::usage(
                format!("--import {}: no such file", path.display()),
                "expected captions, speech, runs, or an existing file",
            )
            .into());
        }
        Imported::File(path) if path.is_dir() => runs_in(path, None, &skipped)?,
        Imported::File(path) => of_file(path)?,
    };
    let found = find::find(&args.videos, &|_| Ok(None))?;
    let (mut imported, mut had, mut none, mut failed) = (0, 0, 0, found.unreadable.len() as u64);
    for clip in &found.clips {
        let taken = match what {
            Imported::Captions => beside(index, clip, Kind::Seen, CAPTIONS),
            Imported::Speech => beside(index, clip, Kind::Said, SPEECH),
            Imported::Runs | Imported::File(_) => of_known(index, clip, &known),
        };
        match taken {
            Ok(Taken::Imported) => imported += 1,
            Ok(Taken::Had) => had += 1,
            Ok(Taken::None) => none += 1,
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
        tell!("{videos}: {imported} imported, {had} had captions, {none} without, {failed} failed");
    }
    Ok(if failed > 0 { crate::cli::commands::batch::SOME_FAILED } else { 0 })
}

/// Import the file next to a video.
fn beside(index: &mut Index, clip: &Clip, kind: Kind, endings: [&str; 3]) -> Result<Taken, Failure> {
    let video = clip.path();
    let file = endings.iter().map(|ending| video.with_extension(ending)).find(|file| file.is_file());
    let Some(file) = file else { return Ok(Taken::None) };
    let import = Import { kind, from: file.display().to_string(), lines: lines(&file)? };
    Ok(if index.import(clip, &import)? { Taken::Imported } else { Taken::Had })
}

/// The lines of a file next to a video.
fn lines(file: &Path) -> Result<Vec<(Option<Span>, String)>, Failure> {
    if file.extension().is_some_and(|ending| ending == "txt") {
        let what = format!("caption {}", file.display());
        let hint = "a caption file is a text of at most 1 MiB";
        let bytes = specreel_client::read_user_file(file, &what, MAX_TEXT, hint)?;
        return Ok(vec![(None, String::from_utf8_lossy(&bytes).into_owned())]);
    }
    let transcript = Transcript::read(file)?;
    Ok(transcript.lines().map(|(span, text)| (Some(span), text.to_owned())).collect())
}

/// Import the captions of a video whose prompts the index lacks.
fn of_known(index: &mut Index, clip: &Clip, known: &Known) -> Result<Taken, Failure> {
    let path = std::fs::canonicalize(clip.path()).unwrap_or_else(|_| clip.path());
    let Some(captions) = known.get(&path) else { return Ok(Taken::None) };
    let prompts: Vec<String> = captions.iter().map(|caption| caption.prompt.clone()).collect();
    let lacking = index.lacks(clip, &prompts)?;
    let lacking: Vec<Caption> = lacking.into_iter().map(|number| captions[number].clone()).collect();
    if lacking.is_empty() {
        return Ok(Taken::Had);
    }
    index.write(clip, &lacking)?;
    Ok(Taken::Imported)
}

/// Keep a caption, replacing an earlier one of the same prompt.
fn keep(known: &mut Known, path: &Path, caption: Caption) {
    // Captions of a deleted video are not kept.
    let Ok(path) = std::fs::canonicalize(path) else { return };
    let captions = known.entry(path).or_default();
    captions.retain(|other| other.prompt != caption.prompt);
    captions.push(caption);
}

/// The captions in a data set, or in a file of saved runs.
fn of_file(path: &Path) -> Result<Known, Failure> {
    let is_table = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("csv"));
    let mut known = Known::default();
    if !is_table {
        match Session::salvage(&Session::bytes(path)?, path) {
            Ok((session, _)) => {
                runs(&mut known, &session);
                return Ok(known);
            }
            // Not a saved run: read it as a data set.
            Err(SessionError::Line { line: 1, .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let set = Dataset::read(path)?;
    let folder = set.folder();
    for row in &set.contents.rows {
        let made: serde_json::Map<String, Value> = match is_table {
            true => Default::default(),
            false => serde_json::from_str(&row.text).unwrap_or_default(),
        };
        let piece = |piece: &Value| {
            let span = Span { start: piece["start"].as_f64()?, end: piece["end"].as_f64()? };
            Some((span, piece["caption"].as_str()?.to_owned())).filter(|(span, _)| span.is_sound())
        };
        let pieces = made.get("segments").and_then(Value::as_array).into_iter().flatten().filter_map(piece);
        let caption = Caption {
            prompt: row.prompt.clone(),
            text: row.caption.clone(),
            pieces: pieces.collect(),
            made,
            ..Caption::default()
        };
        keep(&mut known, &folder.join(&row.path), caption);
    }
    Ok(known)
}

/// Say that a saved run was skipped.
fn skipped(error: &str) {
    tell!("skipped: {}", color::plain(error));
}

/// How often the captions of a session are kept in an index.
const PERIOD: Duration = Duration::from_secs(5);

/// Keep the captions of runs that the studio saves in an index while `work` is done, and once more after it. Returns what `work` did, and
/// the number of the runs' videos. Fails if `work` does, the runs cannot be read, or the index cannot be written.
pub fn keeping_runs<T>(
    path: Option<&Path>,
    work: impl FnOnce() -> Result<T, Failure>,
) -> Result<(T, u64), Failure> {
    let begun = SystemTime::now();
    // Before the studio opens.
    let path = file(path)?;
    drop(Index::open(&path)?);
    let done = std::thread::scope(|scope| {
        let (end, ended) = std::sync::mpsc::sync_channel::<()>(0);
        let (path, mut since) = (path.as_path(), begun);
        scope.spawn(move || {
            while ended.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
                let now = SystemTime::now();
                // What fails here fails again at the end, where it can be told.
                if keep_runs(path, since, &|_| ()).is_ok() {
                    since = now;
                }
            }
        });
        let done = work();
        drop(end);
        done
    })?;
    let videos = keep_runs(&path, begun, &skipped)?;
    Ok((done, videos))
}

/// Keep the captions of runs that were saved or changed since then. Returns the number of their videos.
fn keep_runs(path: &Path, since: SystemTime, on_skipped: &dyn Fn(&str)) -> Result<u64, Failure> {
    let dir = Dirs::find().map(|dirs| dirs.data.join("sessions")).filter(|dir| dir.is_dir());
    let known = runs_in(&dir.unwrap_or_default(), Some(since), on_skipped)?;
    if known.is_empty() {
        return Ok(0);
    }
    let mut index = Index::open(path)?;
    for (path, captions) in &known {
        index.write(&Clip::of_file(path), captions)?;
    }
    Ok(known.len() as u64)
}

/// The captions of the saved runs in a directory, the newest of each prompt; those that changed since a time, if there is one.
fn runs_in(dir: &Path, since: Option<SystemTime>, on_skipped: &dyn Fn(&str)) -> Result<Known, Failure> {
    let mut known = Known::default();
    if dir.as_os_str().is_empty() {
        return Ok(known);
    }
    let unreadable = |error: io::Error| {
        Failure::input(format!("saved runs {}: {error}", dir.display()), "pass a readable directory")
    };
    let files: io::Result<Vec<PathBuf>> =
        std::fs::read_dir(dir).map_err(unreadable)?.map(|entry| Ok(entry?.path())).collect();
    let mut files = files.map_err(unreadable)?;
    // File names start with the time.
    files.sort();
    let is_meant = |file: &&PathBuf| {
        let changed = || file.metadata().and_then(|meta| meta.modified()).ok();
        let is_new = since.is_none_or(|since| changed().is_some_and(|changed| changed >= since));
        is_new && file.extension().is_some_and(|ending| ending == "jsonl")
    };
    for file in files.iter().filter(is_meant) {
        match Session::bytes(file).and_then(|bytes| Session::salvage(&bytes, file)) {
            Ok((session, _)) => runs(&mut known, &session),
            Err(error) => on_skipped(&error.to_string()),
        }
    }
    Ok(known)
}

/// The captions of finished runs: of a whole video, or of its segments together.
fn runs(known: &mut Known, session: &Session) {
    for number in session.runs() {
        let mut log = RunLog::new(number);
        for line in session.lines.iter().filter(|line| line.event.run == number) {
            log.apply(&line.event);
        }
        let Some(started) = log.started().filter(|_| log.is_finished()) else { continue };
        let prompt = Transcript::asked(&started.prompt);
        // Summaries and follow-up questions add nothing new about a moment.
        if started.summary_of.is_some() || !started.before.is_empty() || question::asked(prompt) != prompt {
            continue;
        }
        // Captions of a deleted video are not kept.
        let Ok(path) = std::fs::canonicalize(&started.video) else { continue };
        let captions = known.entry(path).or_default();
        let at = captions.iter().position(|caption| caption.prompt == prompt).unwrap_or_else(|| {
            captions.push(Caption { prompt: prompt.to_owned(), ..Caption::default() });
            captions.len() - 1
        });
        let caption = &mut captions[at];
        let text = log.text().trim().to_owned();
        match started.span {
            None => (caption.text, caption.pieces) = (text, Vec::new()),
            // A caption of the whole video is kept over captions of its segments.
            Some(_) if !caption.text.is_empty() => continue,
            // A segment that was captioned again gets its newer caption.
            Some(span) => {
                caption.pieces.retain(|(other, _)| other.end <= span.start || other.start >= span.end);
                caption.pieces.extend(timed(span, &text));
                caption.pieces.sort_by(|(a, _), (b, _)| a.start.total_cmp(&b.start));
            }
        }
        caption.made = made(started);
    }
}
