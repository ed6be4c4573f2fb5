//! A video that is piped in (`-`). FFmpeg has to seek in it, so it is written to a temporary file first.
//!
//! Where the system has paths to open files (`/proc/self/fd`), the file has no other name, and disappears with the program however that
//! ends. Elsewhere it is removed at the end of the program, or by the next one if this one is killed.

use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::{fs::File, sync::OnceLock};

use specreel_client::scratch::Scratch;
use specreel_os::file::path_of_open;
use specreel_record::{Event, EventKind, Failure, Started};

/// Largest video in bytes: more is not expected on a pipe, and would fill the disk unnoticed.
const MOST: u64 = 4 << 30;

/// The argument that stands for stdin, and the name of its video.
pub const NAME: &str = "-";

static SPOOLED: OnceLock<Spooled> = OnceLock::new();

struct Spooled {
    path: PathBuf,
    /// Without another name the file lives as long as this.
    _open: File,
    /// The directory of its name, if it has one.
    dir: Option<Scratch>,
}

/// True for the argument that stands for stdin.
pub fn is_meant(video: &Path) -> bool {
    video == Path::new(NAME)
}

pub fn read() -> Result<PathBuf, Failure> {
    if let Some(spooled) = SPOOLED.get() {
        return Ok(spooled.path.clone());
    }
    let stdin = io::stdin();
    if stdin.is_terminal() {
        return Err(missing("no video on stdin: it is a terminal"));
    }
    let spooled = spool(&mut stdin.lock(), MOST, true)?;
    Ok(SPOOLED.get_or_init(|| spooled).path.clone())
}

/// The failure of a stdin without bytes.
pub fn empty() -> Failure {
    missing("no video on stdin: it is empty")
}

fn missing(error: &str) -> Failure {
    let hint = "pipe one in, for example: specreel caption - < video.mp4";
    Failure::usage(error, hint)
}

/// Copy at most so many bytes to a temporary file, if it may be without a name where the system has paths to open files.
fn spool(stdin: &mut dyn Read, most: u64, may_be_unnamed: bool) -> Result<Spooled, Failure> {
    let unwritable = |e: io::Error| {
        Failure::internal(
            format!("cannot write the video on stdin to a temporary file: {e}"),
            format!("check the free space in {}, or set TMPDIR", std::env::temp_dir().display()),
        )
    };
    let unnamed = || -> io::Result<Option<(File, PathBuf)>> {
        let file = tempfile::tempfile()?;
        Ok(path_of_open(&file).map(|path| (file, path)))
    };
    let unnamed = if may_be_unnamed { unnamed().map_err(unwritable)? } else { None };
    let (mut open, path, dir) = match unnamed {
        Some((file, path)) => (file, path, None),
        None => {
            let dir = Scratch::new("stdin").map_err(unwritable)?;
            let path = dir.path().join("video");
            (File::create_new(&path).map_err(unwritable)?, path, Some(dir))
        }
    };
    copy(stdin, &mut open, most, &unwritable)?;
    Ok(Spooled { path, _open: open, dir })
}

fn copy(
    stdin: &mut dyn Read,
    file: &mut File,
    most: u64,
    unwritable: &dyn Fn(io::Error) -> Failure,
) -> Result<(), Failure> {
    let mut buffer = vec![0; 1 << 20];
    let mut total = 0;
    loop {
        let read = match stdin.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => {
                return Err(Failure::input(
                    format!("cannot read the video on stdin: {e}"),
                    "name a file instead",
                ));
            }
        };
        total += read as u64;
        if total > most {
            let error = format!("the video on stdin is larger than {}", specreel_record::units::bytes(most));
            return Err(Failure::input(error, "name a file instead: its size is not limited"));
        }
        io::Write::write_all(file, &buffer[..read]).map_err(unwritable)?;
    }
    if total == 0 {
        return Err(empty());
    }
    Ok(())
}

pub fn remove() {
    if let Some(dir) = SPOOLED.get().and_then(|spooled| spooled.dir.as_ref()) {
        let _ = dir.remove();
    }
}

/// A message that names the video as it was typed.
pub fn named(failure: &Failure) -> Failure {
    let Some(spooled) = SPOOLED.get() else { return failure.clone() };
    let error = failure.error.replace(&spooled.path.display().to_string(), NAME);
    Failure { error, ..failure.clone() }
}

/// An event that names the video as it was typed; `None` if it does not name the temporary file.
pub fn renamed(event: &Event) -> Option<Event> {
    let path = SPOOLED.get()?.path.display().to_string();
    let mut event = event.clone();
    match &mut event.kind {
        EventKind::Started(Started { video, .. }) if *video == path => NAME.clone_into(video),
        EventKind::Failed(failure) if failure.error.contains(&path) => *failure = named(failure),
        _ => return None,
    }
    Some(event)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_becomes_a_file_and_is_bounded() {
        for may_be_unnamed in [true, false] {
            let spool = |mut bytes: &[u8]| spool(&mut bytes, 7, may_be_unnamed);
            let spooled = spool(b"a video").unwrap();
            assert_eq!(std::fs::read(&spooled.path).unwrap(), b"a video");
            for (bytes, part) in [(&b"a video!"[..], "larger than"), (b"", "it is empty")] {
                let failure = spool(bytes).err().unwrap();
                assert!(failure.error.contains(part), "{failure:?}");
            }
            let path = spooled.path.clone();
            drop(spooled);
            assert!(may_be_unnamed && cfg!(unix) || !path.parent().unwrap().exists());
        }
    }
}
