//! Reading and writing an index.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};
use specreel_batch::{Clip, Store, rows::Caption};
use specreel_record::{Failure, Span};

use super::file::{Stamp, absolute, fingerprint};
use super::schema;
use specreel_client::moments::Kind;
use specreel_os::names;

/// Captions and speech of videos, in a file.
#[derive(Debug)]
pub struct Index {
    path: PathBuf,
    pub(crate) connection: Connection,
}

/// The file of an index, which is opened for each search because others may write to it in between.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexFile(pub PathBuf);

/// Counts of what is in an index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub videos: u64,
    /// Videos whose files are gone.
    pub missing: u64,
    /// Captions and lines of speech.
    pub captions: u64,
}

/// Captions from another source.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Import {
    pub kind: Kind,
    /// The file that they come from.
    pub from: String,
    pub lines: Vec<(Option<Span>, String)>,
}

/// A video in the index.
struct Known {
    id: i64,
    path: PathBuf,
    stamp: Stamp,
    fingerprint: Vec<u8>,
}

/// Where captions come from.
struct Source<'a> {
    kind: Kind,
    model: Option<&'a str>,
    method: Option<&'a str>,
    prompt: Option<&'a str>,
}

impl Index {
    /// Open an index for writing. It is created if it does not exist. Fails if the file is not an index, is
    /// damaged, was written by a newer version (class input), or cannot be written.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        Ok(Self { path: path.to_owned(), connection: schema::open(path)? })
    }

    /// Open an existing index to search it, even where nothing can be written. Fails like [`Index::open`].
    pub fn open_to_read(path: &Path) -> Result<Self, Failure> {
        Ok(Self { path: path.to_owned(), connection: schema::open_to_read(path)? })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn failure(&self, error: &rusqlite::Error) -> Failure {
        schema::failure(&self.path, error)
    }

    /// Counts of what is in it. Fails if it cannot be read.
    pub fn totals(&self) -> Result<Totals, Failure> {
        let count = |sql: &str| -> rusqlite::Result<u64> {
            let count: i64 = self.connection.query_row(sql, [], |row| row.get(0))?;
            Ok(count.unsigned_abs())
        };
        let read = || -> rusqlite::Result<Totals> {
            Ok(Totals {
                videos: count("SELECT count(*) FROM videos")?,
                missing: count("SELECT count(*) FROM videos WHERE missing")?,
                captions: count("SELECT count(*) FROM captions")?,
            })
        };
        read().map_err(|error| self.failure(&error))
    }

    /// Mark the videos below these directories whose files are gone, and unmark those whose files are back.
    /// Directories that do not exist themselves, such as on a drive that is not plugged in, are skipped.
    /// Returns the number of missing videos. Fails if the index cannot be written.
    pub fn sweep(&mut self, directories: &[PathBuf]) -> Result<u64, Failure> {
        let roots: Vec<PathBuf> =
            directories.iter().filter(|dir| dir.is_dir()).map(|dir| absolute(dir)).collect();
        let sweep = |write: &Transaction<'_>| {
            let mut missing = 0;
            let mut all = write.prepare("SELECT id, path FROM videos")?;
            let all: Vec<(i64, Vec<u8>)> =
                all.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Result<_, _>>()?;
            for (id, path) in all {
                let path = names::path(&path);
                if roots.iter().any(|root| path.starts_with(root)) {
                    let is_missing = !path.exists();
                    missing += u64::from(is_missing);
                    let change = "UPDATE videos SET missing = ?2 WHERE id = ?1 AND missing != ?2";
                    write.execute(change, params![id, is_missing])?;
                }
            }
            Ok(missing)
        };
        self.change(sweep)
    }

    /// Import captions from another source. Returns false, without a change, if the video already has
    /// captions of this kind. Fails if files or the index cannot be read or written.
    pub fn import(&mut self, clip: &Clip, import: &Import) -> Result<bool, Failure> {
        let path = absolute(&clip.path());
        if let Some(video) = self.known(&path)? {
            let has = "SELECT 1 FROM sources WHERE video = ?1 AND kind = ?2";
            let found =
                self.connection.query_row(has, params![video, import.kind as i64], |_| Ok(())).optional();
            if found.map_err(|error| self.failure(&error))?.is_some() {
                return Ok(false);
            }
        }
        let (stamp, fingerprint) = self.facts(&path)?;
        let source = Source { kind: import.kind, model: Some(&import.from), method: None, prompt: None };
        self.change(|write| {
            let video = put_video(write, &path, stamp, &fingerprint)?;
            put(write, video, &source, &import.lines)
        })?;
        Ok(true)
    }

    /// Add the captions of further parts of a video that may have grown to those for the same prompt, of which those that end after some
    /// seconds are deleted. Fails if the video cannot be read, or the index cannot be written.
    pub fn extend(&mut self, clip: &Clip, caption: &Caption, after_s: f64) -> Result<(), Failure> {
        let path = absolute(&clip.path());
        let (stamp, fingerprint) = self.facts(&path)?;
        self.change(|write| {
            let grown = "UPDATE videos SET fingerprint = ?2 WHERE path = ?1";
            write.execute(grown, params![names::bytes(&path), fingerprint])?;
            let video = put_video(write, &path, stamp, &fingerprint)?;
            let (source, lines) = (Source::of(caption), lines_of(caption));
            let known = "SELECT id FROM sources WHERE video = ?1 AND kind = ?2 AND prompt IS ?3";
            let about = params![video, source.kind as i64, source.prompt];
            let known = write.query_row(known, about, |row| row.get(0)).optional()?;
            let Some(known) = known else { return put(write, video, &source, &lines) };
            write.execute(
                "DELETE FROM captions WHERE source = ?1 AND ifnull(end_s, 1e300) > ?2",
                params![known, after_s],
            )?;
            add(write, video, known, &lines)
        })
    }

    fn facts(&self, path: &Path) -> Result<(Stamp, [u8; 16]), Failure> {
        let facts = || Ok((Stamp::of(path)?, fingerprint(path)?));
        facts().map_err(|error: std::io::Error| {
            Failure::input(format!("video {}: {error}", path.display()), "make it readable")
        })
    }

    /// Change the index in one transaction.
    pub(crate) fn change<T>(
        &mut self,
        change: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, Failure> {
        let path = &self.path;
        let connection = &mut self.connection;
        let written = || -> rusqlite::Result<T> {
            let write = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let result = change(&write)?;
            write.commit()?;
            Ok(result)
        };
        written().map_err(|error| schema::failure(path, &error))
    }

    /// The id of the video at a path, to which it may have been moved or copied; `None` if it is not in the
    /// index.
    fn known(&mut self, path: &Path) -> Result<Option<i64>, Failure> {
        let Ok(stamp) = Stamp::of(path) else { return Ok(None) };
        let here = self.find(path).map_err(|error| self.failure(&error))?;
        if let Some(here) = here.as_ref().filter(|here| here.stamp == stamp) {
            return Ok(Some(here.id));
        }
        let (stamp, fingerprint) = self.facts(path)?;
        let same = here.filter(|here| here.fingerprint == fingerprint);
        self.change(|write| match same {
            // Only its time changed.
            Some(same) => {
                move_to(write, same.id, path, stamp)?;
                Ok(Some(same.id))
            }
            None => adopt(write, path, stamp, &fingerprint),
        })
    }

    fn find(&self, path: &Path) -> rusqlite::Result<Option<Known>> {
        let sql = format!("{KNOWN} WHERE path = ?1");
        self.connection.query_row(&sql, [names::bytes(path)], known).optional()
    }
}

const KNOWN: &str = "SELECT id, path, size, modified_ms, fingerprint FROM videos";

fn known(row: &rusqlite::Row<'_>) -> rusqlite::Result<Known> {
    let path: Vec<u8> = row.get(1)?;
    let size: i64 = row.get(2)?;
    Ok(Known {
        id: row.get(0)?,
        path: names::path(&path),
        stamp: Stamp { size: size.cast_unsigned(), modified_ms: row.get(3)? },
        fingerprint: row.get(4)?,
    })
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Find a video with these contents at another path. If its file is gone, it was moved to this path;
/// otherwise this file is a copy, and gets the same captions.
fn adopt(
    write: &Transaction<'_>,
    path: &Path,
    stamp: Stamp,
    fingerprint: &[u8],
) -> rusqlite::Result<Option<i64>> {
    let sql = format!("{KNOWN} WHERE fingerprint = ?1 AND size = ?2 AND path != ?3");
    let mut others = write.prepare(&sql)?;
    let here = names::bytes(path);
    let others = others.query_map(params![fingerprint, stamp.size.cast_signed(), here], known)?;
    let others: Vec<Known> = others.collect::<Result<_, _>>()?;
    if let Some(gone) = others.iter().find(|other| !other.path.exists()) {
        write.execute("DELETE FROM videos WHERE path = ?1", [here])?;
        move_to(write, gone.id, path, stamp)?;
        return Ok(Some(gone.id));
    }
    let Some(other) = others.first() else { return Ok(None) };
    let copy = put_video(write, path, stamp, fingerprint)?;
    write.execute(
        "UPDATE videos SET seconds = (SELECT seconds FROM videos WHERE id = ?2) WHERE id = ?1",
        [copy, other.id],
    )?;
    let mut sources = write.prepare("SELECT id FROM sources WHERE video = ?1")?;
    let sources: Vec<i64> = sources.query_map([other.id], |row| row.get(0))?.collect::<Result<_, _>>()?;
    for source in sources {
        write.execute(
            "INSERT INTO sources (video, kind, model, method, prompt, made_ms)
             SELECT ?1, kind, model, method, prompt, made_ms FROM sources WHERE id = ?2",
            [copy, source],
        )?;
        write.execute(
            "INSERT INTO captions (source, start_s, end_s, text) SELECT ?1, start_s, end_s, text FROM captions WHERE source = ?2",
            [write.last_insert_rowid(), source],
        )?;
    }
    Ok(Some(copy))
}

fn move_to(write: &Transaction<'_>, id: i64, path: &Path, stamp: Stamp) -> rusqlite::Result<()> {
    write.execute(
        "UPDATE videos SET path = ?2, size = ?3, modified_ms = ?4, missing = 0 WHERE id = ?1",
        params![id, names::bytes(path), stamp.size.cast_signed(), stamp.modified_ms],
    )?;
    Ok(())
}

/// Insert or update the row of a video. The row for other contents at its path is deleted.
fn put_video(
    write: &Transaction<'_>,
    path: &Path,
    stamp: Stamp,
    fingerprint: &[u8],
) -> rusqlite::Result<i64> {
    let path = names::bytes(path);
    write.execute("DELETE FROM videos WHERE path = ?1 AND fingerprint != ?2", params![path, fingerprint])?;
    write.query_row(
        "INSERT INTO videos (path, size, modified_ms, fingerprint) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (path) DO UPDATE SET size = ?2, modified_ms = ?3, missing = 0 RETURNING id",
        params![path, stamp.size.cast_signed(), stamp.modified_ms, fingerprint],
        |row| row.get(0),
    )
}

impl<'a> Source<'a> {
    /// The source of a caption of what is seen.
    fn of(caption: &'a Caption) -> Self {
        let made = |key: &str| caption.made.get(key).and_then(|value| value.as_str());
        let prompt = Some(caption.prompt.as_str());
        Self { kind: Kind::Seen, model: made("target"), method: made("method"), prompt }
    }
}

/// The lines of a caption: of each part, or of the whole video.
fn lines_of(caption: &Caption) -> Vec<(Option<Span>, String)> {
    match caption.pieces.is_empty() {
        true => vec![(None, caption.text.clone())],
        false => timed(&caption.pieces),
    }
}

fn timed(lines: &[(Span, String)]) -> Vec<(Option<Span>, String)> {
    lines.iter().map(|(span, text)| (Some(*span), text.clone())).collect()
}

/// Write captions of one source, replacing captions of the same kind and prompt.
fn put(
    write: &Transaction<'_>,
    video: i64,
    source: &Source<'_>,
    lines: &[(Option<Span>, String)],
) -> rusqlite::Result<()> {
    let Source { kind, model, method, prompt } = source;
    let old = "DELETE FROM sources WHERE video = ?1 AND kind = ?2 AND prompt IS ?3";
    write.execute(old, params![video, *kind as i64, prompt])?;
    write.execute(
        "INSERT INTO sources (video, kind, model, method, prompt, made_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        params![video, *kind as i64, model, method, prompt, now_ms()],
    )?;
    add(write, video, write.last_insert_rowid(), lines)
}

/// Add lines to a source of a video, which is at least as long as they say.
fn add(
    write: &Transaction<'_>,
    video: i64,
    source: i64,
    lines: &[(Option<Span>, String)],
) -> rusqlite::Result<()> {
    let mut line = write
        .prepare_cached("INSERT INTO captions (source, start_s, end_s, text) VALUES (?1, ?2, ?3, ?4)")?;
    for (span, text) in lines {
        let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        if !text.trim().is_empty() {
            line.execute(params![
                source,
                span.map_or(0.0, |span| span.start),
                span.map(|span| span.end),
                text.trim()
            ])?;
        }
    }
    let end = lines.iter().filter_map(|(span, _)| span.map(|span| span.end)).fold(0.0, f64::max);
    write.execute(
        "UPDATE videos SET seconds = max(ifnull(seconds, 0), ?2) WHERE id = ?1 AND ?2 > 0",
        params![video, end],
    )?;
    Ok(())
}

impl Store for Index {
    fn state(&self) -> PathBuf {
        let mut name = self.path.file_name().unwrap_or_default().to_owned();
        name.push(".state");
        self.path.with_file_name(name)
    }

    fn lacks(&mut self, clip: &Clip, prompts: &[String]) -> Result<Vec<usize>, Failure> {
        let Some(video) = self.known(&absolute(&clip.path()))? else {
            return Ok((0..prompts.len()).collect());
        };
        let has = "SELECT 1 FROM sources WHERE video = ?1 AND kind = 0 AND (prompt = ?2 OR prompt IS NULL)";
        let mut lacking = Vec::new();
        for (number, prompt) in prompts.iter().enumerate() {
            let found = self.connection.query_row(has, params![video, prompt], |_| Ok(())).optional();
            if found.map_err(|error| self.failure(&error))?.is_none() {
                lacking.push(number);
            }
        }
        Ok(lacking)
    }

    fn write(&mut self, clip: &Clip, captions: &[Caption]) -> Result<(), Failure> {
        let path = absolute(&clip.path());
        let (stamp, fingerprint) = self.facts(&path)?;
        let change = |write: &Transaction<'_>| {
            let video = put_video(write, &path, stamp, &fingerprint)?;
            for caption in captions {
                put(write, video, &Source::of(caption), &lines_of(caption))?;
            }
            // Speech in a clip is the same for every prompt.
            if let Some(Caption { said, made, .. }) =
                captions.last().filter(|caption| !caption.said.is_empty())
            {
                let model = made.get("transcript").and_then(|value| value.as_str());
                let source = Source { kind: Kind::Said, model, method: None, prompt: None };
                put(write, video, &source, &timed(said))?;
            }
            Ok(())
        };
        self.change(change)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Query;
    use serde_json::Map;
    use specreel_client::moments::Filter;

    fn caption(prompt: &str, pieces: &[(f64, f64, &str)]) -> Caption {
        let pieces =
            pieces.iter().map(|(start, end, text)| (Span { start: *start, end: *end }, (*text).to_owned()));
        Caption { prompt: prompt.into(), pieces: pieces.collect(), made: Map::new(), ..Caption::default() }
    }

    fn found(index: &Index, words: &str) -> Vec<(String, f64)> {
        let hits = index.find_moments(&Query::parse(words).unwrap(), &Filter::default(), 10).unwrap();
        hits.into_iter()
            .map(|hit| (hit.path.file_name().unwrap().to_string_lossy().into(), hit.start))
            .collect()
    }

    fn check(index: &Index) {
        index.connection.execute_batch("INSERT INTO words (words) VALUES ('integrity-check')").unwrap();
        let sound: String =
            index.connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(sound, "ok");
    }

    struct Place {
        dir: tempfile::TempDir,
        index: Index,
    }

    impl Place {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let index = Index::open(&dir.path().join("index.db")).unwrap();
            Self { dir, index }
        }

        fn clip(&self, name: &str, bytes: &[u8]) -> Clip {
            let path = self.dir.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            Clip::of_file(&path)
        }

        fn lacks(&mut self, clip: &Clip) -> Vec<usize> {
            self.index.lacks(clip, &["a".into(), "b".into()]).unwrap()
        }
    }

    #[test]
    fn a_video_has_its_captions_until_it_changes() {
        let mut place = Place::new();
        let clip = place.clip("one.mp4", b"contents");
        assert_eq!(place.lacks(&clip), [0, 1]);
        place
            .index
            .write(&clip, &[caption("a", &[(0.0, 4.0, "A red van"), (4.0, 9.0, "It turns")])])
            .unwrap();
        assert_eq!(place.lacks(&clip), [1]);
        assert_eq!(found(&place.index, "turning"), [("one.mp4".into(), 4.0)]);
        // New captions of a prompt replace its earlier ones; captions of another prompt are added.
        place
            .index
            .write(&clip, &[caption("a", &[(0.0, 9.0, "A van")]), caption("b", &[(0.0, 9.0, "Vehicles")])])
            .unwrap();
        assert!(place.lacks(&clip).is_empty() && found(&place.index, "turning").is_empty());
        assert_eq!(found(&place.index, "vehicle").len(), 1);
        // With another time it is the same video; with other contents it is a different one.
        place.clip("one.mp4", b"contents");
        assert!(place.lacks(&clip).is_empty());
        place.clip("one.mp4", b"other contents");
        assert_eq!(place.lacks(&clip), [0, 1]);
        place.index.write(&clip, &[caption("a", &[(0.0, 2.0, "A dog")])]).unwrap();
        assert!(found(&place.index, "vehicle").is_empty());
        assert_eq!(place.index.totals().unwrap(), Totals { videos: 1, missing: 0, captions: 1 });
        check(&place.index);
    }

    #[test]
    fn a_moved_video_has_what_was_imported_for_it() {
        let mut place = Place::new();
        let clip = place.clip("one.mp4", b"contents");
        let import = |text: &str| Import {
            from: "one.txt".into(),
            lines: vec![(None, text.into())],
            ..Import::default()
        };
        assert!(place.index.import(&clip, &import("a van")).unwrap());
        let moved = place.dir.path().join("moved.mp4");
        std::fs::rename(clip.path(), &moved).unwrap();
        assert!(!place.index.import(&Clip::of_file(&moved), &import("a bus")).unwrap());
        assert_eq!(found(&place.index, "van"), [("moved.mp4".into(), 0.0)]);
        assert_eq!(place.index.totals().unwrap().videos, 1);
    }

    #[test]
    fn moved_and_copied_videos_keep_their_captions() {
        let mut place = Place::new();
        let clip = place.clip("one.mp4", b"contents");
        place.index.write(&clip, &[caption("a", &[(1.0, 4.0, "A red van")])]).unwrap();
        let moved = place.dir.path().join("moved.mp4");
        std::fs::rename(clip.path(), &moved).unwrap();
        assert_eq!(place.index.sweep(&[place.dir.path().to_owned()]).unwrap(), 1);
        assert!(found(&place.index, "van").is_empty(), "it is missing");
        assert_eq!(place.lacks(&Clip::of_file(&moved)), [1]);
        assert_eq!(found(&place.index, "van"), [("moved.mp4".into(), 1.0)]);
        std::fs::copy(&moved, place.dir.path().join("copy.mp4")).unwrap();
        assert_eq!(place.lacks(&Clip::of_file(&place.dir.path().join("copy.mp4"))), [1]);
        assert_eq!(found(&place.index, "van").len(), 2);
        // If a directory does not exist, its videos do not count as missing.
        let gone = place.dir.path().join("gone");
        assert_eq!(place.index.sweep(&[gone]).unwrap(), 0);
        check(&place.index);
    }

    #[test]
    fn imports_count_as_captions_and_happen_once() {
        let mut place = Place::new();
        let clip = place.clip("one.mp4", b"contents");
        let import = Import {
            kind: Kind::Seen,
            from: "one.srt".into(),
            lines: vec![(Some(Span { start: 2.0, end: 3.0 }), "A cat\u{7}jumps".into()), (None, " ".into())],
        };
        assert!(place.index.import(&clip, &import).unwrap());
        assert!(!place.index.import(&clip, &import).unwrap());
        assert!(place.lacks(&clip).is_empty(), "for every prompt");
        let said =
            Import { kind: Kind::Said, from: "one.vtt".into(), lines: vec![(None, "Hello there".into())] };
        assert!(place.index.import(&clip, &said).unwrap());
        assert_eq!(found(&place.index, "jumping cat"), [("one.mp4".into(), 2.0)]);
        assert_eq!(place.index.totals().unwrap().captions, 2);
        check(&place.index);
    }

    #[test]
    fn two_writers_and_a_reader_share_a_file() {
        let place = Place::new();
        let path = place.index.path().to_owned();
        let clips: Vec<Clip> = (0..40).map(|n| place.clip(&format!("{n}.mp4"), &[n])).collect();
        std::thread::scope(|scope| {
            for half in clips.chunks(20) {
                let path = &path;
                scope.spawn(move || {
                    let mut index = Index::open(path).unwrap();
                    for clip in half {
                        index.write(clip, &[caption("a", &[(0.0, 1.0, "A bird")])]).unwrap();
                    }
                });
            }
            let reader = Index::open_to_read(&path).unwrap();
            while found(&reader, "bird").len() < 10 {
                std::thread::yield_now();
            }
        });
        assert_eq!(place.index.totals().unwrap().captions, 40);
        check(&place.index);
    }
}
