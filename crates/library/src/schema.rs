//! The tables of an index, and opening an index.

use std::path::Path;
use std::time::Duration;

use percent_encoding::{AsciiSet, CONTROLS, percent_encode};
use rusqlite::{Connection, ErrorCode, OpenFlags};
use specreel_record::{Failure, FailureClass};

use super::file::absolute;

/// The SQLite application id of a specreel index: "SpRl".
const APPLICATION: i32 = 0x5370_526c;

/// Migrations from each version to the next. Their number is the version that this program writes.
const STEPS: [&str; 2] = [
    "
CREATE TABLE videos (
    id INTEGER PRIMARY KEY,
    path BLOB NOT NULL UNIQUE,
    size INTEGER NOT NULL,
    modified_ms INTEGER NOT NULL,
    fingerprint BLOB NOT NULL,
    seconds REAL,
    missing INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX videos_by_fingerprint ON videos (fingerprint);
CREATE TABLE sources (
    id INTEGER PRIMARY KEY,
    video INTEGER NOT NULL REFERENCES videos (id) ON DELETE CASCADE,
    kind INTEGER NOT NULL,
    model TEXT,
    method TEXT,
    prompt TEXT,
    made_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX sources_by_video ON sources (video);
CREATE TABLE captions (
    id INTEGER PRIMARY KEY,
    source INTEGER NOT NULL REFERENCES sources (id) ON DELETE CASCADE,
    start_s REAL NOT NULL,
    end_s REAL,
    text TEXT NOT NULL
) STRICT;
CREATE INDEX captions_by_source ON captions (source);
CREATE VIRTUAL TABLE words USING fts5 (
    text, content = 'captions', content_rowid = 'id', tokenize = 'porter unicode61 remove_diacritics 2'
);
CREATE TRIGGER captions_added AFTER INSERT ON captions BEGIN
    INSERT INTO words (rowid, text) VALUES (new.id, new.text);
END;
CREATE TRIGGER captions_removed AFTER DELETE ON captions BEGIN
    INSERT INTO words (words, rowid, text) VALUES ('delete', old.id, old.text);
END;
",
    "
CREATE TABLE meanings (
    caption INTEGER NOT NULL REFERENCES captions (id) ON DELETE CASCADE,
    model TEXT NOT NULL,
    vector BLOB NOT NULL,
    UNIQUE (model, caption)
) STRICT;
CREATE TABLE unable (model TEXT PRIMARY KEY) STRICT;
",
];

/// How long to wait while another process writes.
const PATIENCE: Duration = Duration::from_secs(30);

/// Open an index for writing. It is created if it does not exist, and migrated if it is older. Fails if the
/// file is not an index, is damaged, was written by a newer version (class input), or cannot be written.
pub fn open(path: &Path) -> Result<Connection, Failure> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).map_err(|error| {
            Failure::input(format!("index {}: {error}", path.display()), "choose another file with --db")
        })?;
    }
    let failed = |error| failure(path, &error);
    let mut connection = Connection::open(path).map_err(failed)?;
    connection.busy_timeout(PATIENCE).map_err(failed)?;
    // Where WAL does not work, as on some network drives, changes are written through a journal.
    let _: Result<String, _> = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0));
    connection.execute_batch("PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON;").map_err(failed)?;
    migrate(&mut connection, path)?;
    Ok(connection)
}

/// Open an existing index to search it, even where nothing can be written. Fails like [`open`].
pub fn open_to_read(path: &Path) -> Result<Connection, Failure> {
    if !path.exists() {
        return Err(Failure::input(
            format!("index {}: no such file", path.display()),
            "create it: specreel index DIR",
        ));
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let read = |connection: Connection| {
        connection.busy_timeout(PATIENCE)?;
        let facts = facts(&connection)?;
        Ok((connection, facts))
    };
    let opened = match Connection::open_with_flags(path, flags).and_then(read) {
        // The shared-memory files that readers need cannot be created.
        Err(error)
            if matches!(error.sqlite_error_code(), Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly)) =>
        {
            let flags = flags | OpenFlags::SQLITE_OPEN_URI;
            Connection::open_with_flags(unchanging(path), flags).and_then(read)
        }
        opened => opened,
    };
    let (connection, facts) = opened.map_err(|error| failure(path, &error))?;
    check(path, facts)?;
    match facts.1 {
        version if version == STEPS.len() => Ok(connection),
        // Only a writer can migrate it.
        _ => open(path),
    }
}

/// The URI that opens a file as immutable.
fn unchanging(path: &Path) -> String {
    const PLAIN: &AsciiSet = &CONTROLS.add(b'%').add(b'?').add(b'#').add(b' ');
    format!("file:{}?immutable=1", percent_encode(&specreel_os::names::uri_path(&absolute(path)), PLAIN))
}

/// The application id and the version of a file.
fn facts(connection: &Connection) -> rusqlite::Result<(i32, usize)> {
    let number = |name: &str| connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get(0));
    Ok((number("application_id")?, usize::try_from(number("user_version")?).unwrap_or(usize::MAX)))
}

fn check(path: &Path, (application, version): (i32, usize)) -> Result<(), Failure> {
    if application != APPLICATION {
        return Err(Failure::input(
            format!("index {}: it is a database, but not a specreel index", path.display()),
            "choose another file with --db",
        ));
    }
    if version > STEPS.len() {
        let known = STEPS.len();
        return Err(Failure::input(
            format!(
                "index {}: written by a newer specreel (version {version}; this one supports up to {known})",
                path.display()
            ),
            "update specreel, or choose another file with --db",
        ));
    }
    Ok(())
}

fn migrate(connection: &mut Connection, path: &Path) -> Result<(), Failure> {
    let failed = |error| failure(path, &error);
    let write =
        connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).map_err(failed)?;
    let tables: i64 =
        write.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(failed)?;
    let facts = facts(&write).map_err(failed)?;
    let version = match tables {
        0 => 0,
        _ => {
            check(path, facts)?;
            facts.1
        }
    };
    for step in &STEPS[version..] {
        write.execute_batch(step).map_err(failed)?;
    }
    if version < STEPS.len() {
        let marks = format!("PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {};", STEPS.len());
        write.execute_batch(&marks).map_err(failed)?;
    }
    write.commit().map_err(failed)
}

/// The failure to report for a database error.
pub fn failure(path: &Path, error: &rusqlite::Error) -> Failure {
    let name = path.display();
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => Failure::input(
            format!("index {name}: it is damaged, or not an index"),
            "remove it and run `specreel index` again, or choose another file with --db",
        ),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Failure::input(
            format!("index {name}: locked by another program for {} s", PATIENCE.as_secs()),
            "try again when that program has finished",
        ),
        Some(ErrorCode::DiskFull) => Failure::new(
            FailureClass::Internal,
            format!("cannot write index {name}: {error}"),
            "free some space, then run the same command again to resume",
        ),
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => Failure::input(
            format!("index {name}: {error}"),
            "make the file and its directory writable, or choose another file with --db",
        ),
        _ => Failure::internal(format!("index {name}: {error}"), "run the same command again"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_no_index_are_refused_with_what_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("index.db");
        let error = || (open(&path).unwrap_err().error, open_to_read(&path).unwrap_err().error);
        std::fs::write(
            &path,
            b"a text, and no database at all; long enough to have a header of its own. ".repeat(20),
        )
        .unwrap();
        let (write, read) = error();
        assert!(write.ends_with("it is damaged, or not an index") && read == write, "{write} {read}");
        std::fs::remove_file(&path).unwrap();
        Connection::open(&path).unwrap().execute_batch("CREATE TABLE t (a)").unwrap();
        let (write, read) = error();
        assert!(write.ends_with("but not a specreel index") && read == write, "{write} {read}");
        std::fs::remove_file(&path).unwrap();
        drop(open(&path).unwrap());
        let other = Connection::open(&path).unwrap();
        other.execute_batch("PRAGMA user_version = 9").unwrap();
        drop(other);
        let (write, read) = error();
        assert!(write.contains("written by a newer specreel (version 9") && read == write, "{write} {read}");
        assert!(open_to_read(&dir.path().join("none.db")).unwrap_err().error.ends_with("no such file"));
    }

    #[test]
    fn a_truncated_index_is_told_and_never_a_panic() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("index.db");
        drop(open(&path).unwrap());
        let whole = std::fs::read(&path).unwrap();
        for length in [1, 50, 100, 4096, 5000, whole.len() / 2, whole.len() - 1] {
            std::fs::write(&path, &whole[..length]).unwrap();
            if let Err(failure) = open(&path) {
                assert!(failure.error.contains("damaged"), "{length}: {failure:?}");
            }
        }
        // An empty file is a new index.
        std::fs::write(&path, b"").unwrap();
        drop(open(&path).unwrap());
    }

    #[cfg(unix)]
    #[test]
    fn an_index_is_read_where_nothing_can_be_written() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("in dex%.db");
        drop(open(&path).unwrap());
        let set = |mode| std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(mode)).unwrap();
        set(0o555);
        let read = open_to_read(&path);
        set(0o755);
        assert!(read.is_ok(), "{read:?}");
        assert!(
            Connection::open_with_flags(
                unchanging(&path),
                OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI
            )
            .is_ok()
        );
    }
}
