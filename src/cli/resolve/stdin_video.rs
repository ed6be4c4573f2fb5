//! A video that is piped in (`-`). FFmpeg has to seek in it, so it is written to a temporary file first.
//!
//! Where the system names open files (`/proc/self/fd`), the file has no other name, and disappears with the program however that
//! ends. Elsewhere it is removed at the end of the program.

use std::{
    fs::File,
    io::{self, IsTerminal, Read},
    os::fd::AsRawFd,
    path::{Path, PathBuf},
    sync::OnceLock,
};

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
    remove: bool,
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
    let spooled = spool(&mut stdin.lock(), MOST)?;
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

/// Copy at most so many bytes to a temporary file.
fn spool(stdin: &mut dyn Read, most: u64) -> Result<Spooled, Failure> {
    let unwritable = |e: io::Error| {
        Failure::internal(
            format!("cannot write the video on stdin to a temporary file: {e}"),
            format!("check the free space in {}, or set TMPDIR", std::env::temp_dir().display()),
        )
    };
    let (mut open, path, remove) = match Path::new("/proc/self/fd").is_dir() {
        true => {
            let file = tempfile::tempfile().map_err(unwritable)?;
            let path = format!("/proc/self/fd/{}", file.as_raw_fd());
            (file, path.into(), false)
        }
        false => {
            let (file, path) = tempfile::NamedTempFile::new().map_err(unwritable)?.into_parts();
            let path = path.keep().map_err(|e| unwritable(e.error))?;
            (file, path, true)
        }
    };
    let written = copy(stdin, &mut open, most, &unwritable);
    // Not a video: there is nothing to keep.
    written.inspect_err(|_| {
        if remove {
            let _ = std::fs::remove_file(&path);
        }
    })?;
    Ok(Spooled { path, _open: open, remove })
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
    if let Some(spooled) = SPOOLED.get().filter(|spooled| spooled.remove) {
        let _ = std::fs::remove_file(&spooled.path);
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
        let spooled = spool(&mut &b"a video"[..], 7).unwrap();
        assert_eq!(std::fs::read(&spooled.path).unwrap(), b"a video");
        for (bytes, part) in [(&b"a video!"[..], "larger than"), (b"", "it is empty")] {
            let failure = spool(&mut &*bytes, 7).err().unwrap();
            assert!(failure.error.contains(part), "{failure:?}");
        }
    }
}
