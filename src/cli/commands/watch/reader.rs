//! The thread that reads a stream.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs::File, ops::ControlFlow, sync::Arc};

use super::queue::{News, Queue};
use crate::cli::interrupt::{Interrupt, refused};
use crate::cli::resolve::{self, stdin_video};
use crate::cli::{args::watch::WatchArgs, end::End};
use specreel_record::Failure;
use specreel_video::{Error, HeldFrames, Options, Stream, Watcher, follow, is_url, shown_url};

/// The time between two looks at a file that may grow, and at the interrupt.
const TICK: Duration = Duration::from_millis(100);

/// The longest pause before a stream is opened again, in seconds.
const LONGEST_PAUSE_S: u64 = 30;

/// Where a stream comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum Origin {
    Stdin,
    Url(String),
    File(PathBuf),
    /// A named pipe, or a device.
    Pipe(PathBuf),
}

impl Origin {
    /// What an argument names. Fails as [`resolve::video`]; a file may be empty still.
    pub fn of(argument: &Path) -> Result<Self, Failure> {
        if stdin_video::is_meant(argument) {
            return Ok(Self::Stdin);
        }
        if let Some(url) = argument.to_str().filter(|name| is_url(name)) {
            return Ok(Self::Url(url.into()));
        }
        match std::fs::metadata(argument) {
            Ok(meta) if meta.is_file() && meta.len() == 0 => Ok(Self::File(argument.into())),
            Ok(meta) if !meta.is_file() && !meta.is_dir() => Ok(Self::Pipe(argument.into())),
            _ => resolve::video(argument).map(Self::File),
        }
    }

    /// The name in messages and events: a URL has no password.
    pub fn name(&self) -> PathBuf {
        match self {
            Self::Stdin => stdin_video::NAME.into(),
            Self::Url(url) => shown_url(url).into(),
            Self::File(path) | Self::Pipe(path) => path.clone(),
        }
    }

    /// True if it can be read again from its beginning.
    pub fn is_file(&self) -> bool {
        matches!(self, Self::File(_))
    }

    pub fn is_url(&self) -> bool {
        matches!(self, Self::Url(_))
    }
}

pub struct Reader {
    queue: Arc<Queue>,
    interrupt: Interrupt,
    retries: u32,
    /// When the stream broke.
    broken: Instant,
}

impl Reader {
    /// Read a stream to its end, on a thread of its own.
    pub fn start(
        origin: Origin,
        options: Options,
        args: &WatchArgs,
        queue: Arc<Queue>,
        interrupt: Interrupt,
    ) -> Result<(), End> {
        let mut reader =
            Self { queue: queue.clone(), interrupt, retries: args.retries, broken: Instant::now() };
        let looks = (args.idle / TICK.as_secs_f64()).ceil() as u32;
        let read = move || {
            let interrupt = reader.interrupt.clone();
            let mut open = || open(&origin, looks, &interrupt);
            queue.end(follow(&mut open, &options, &mut reader).map_err(|error| match error {
                Error::Empty(_) if origin == Origin::Stdin => stdin_video::empty(),
                error => error.into(),
            }));
        };
        std::thread::Builder::new().name("stream".into()).spawn(read).map(|_| ()).map_err(refused)
    }

    /// Wait, unless that is interrupted.
    fn pause(&self, seconds: u64) -> ControlFlow<()> {
        let start = Instant::now();
        while start.elapsed().as_secs() < seconds {
            if self.interrupt.asked() {
                return ControlFlow::Break(());
            }
            std::thread::sleep(TICK);
        }
        ControlFlow::Continue(())
    }
}

fn open(origin: &Origin, looks: u32, interrupt: &Interrupt) -> Result<Stream, Error> {
    let asked = interrupt.clone();
    let stop: specreel_video::Stop = Arc::new(move || asked.asked());
    match origin {
        Origin::Stdin => Stream::pipe(&origin.name(), std::io::stdin(), &stop),
        Origin::Url(url) => Stream::url(url, &stop),
        Origin::Pipe(path) => {
            let file = File::open(path).map_err(|source| Error::Unreadable { path: path.clone(), source })?;
            Stream::pipe(path, file, &stop)
        }
        Origin::File(path) => {
            let ends = stop.clone();
            let wait = move |waits| {
                let waits = waits < looks && !ends();
                if waits {
                    std::thread::sleep(TICK);
                }
                waits
            };
            Stream::growing(path, wait, &stop)
        }
    }
}

/// The pause before the next attempt, after so many failed ones: 1, 2, 4 … seconds.
fn pause_s(attempts: u32) -> u64 {
    1u64.checked_shl(attempts).map_or(LONGEST_PAUSE_S, |seconds| seconds.min(LONGEST_PAUSE_S))
}

impl Watcher for Reader {
    fn segment(&mut self, frames: HeldFrames) -> ControlFlow<()> {
        self.queue.segment(frames)
    }

    fn broken(&mut self, why: &Error, attempts: u32) -> ControlFlow<()> {
        if attempts == 0 {
            self.broken = Instant::now();
        }
        if attempts >= self.retries {
            return ControlFlow::Break(());
        }
        let pause_s = pause_s(attempts);
        self.queue.news(News::Broken { error: why.to_string(), pause_s });
        self.pause(pause_s)
    }

    fn reopened(&mut self) -> f64 {
        let seconds = self.broken.elapsed().as_secs_f64();
        self.queue.news(News::Reopened { seconds });
        seconds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_a_limit() {
        assert_eq!([0, 1, 2, 4, 5, 63, 64].map(pause_s), [1, 2, 4, 16, 30, 30, 30]);
    }
}
