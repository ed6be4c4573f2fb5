//! What the terminal sends, read on a thread of its own.
//!
//! Crossterm's stream of events is not used: it has a thread that may still wait for input after the stream is dropped, and on a
//! busy machine takes the first keys from an editor. Here one thread waits both for the terminal and for its
//! own end, and once [`TerminalEvents`] is dropped, nothing reads the terminal any more. It is also one
//! thread less between a key and its frame.

use std::fs::File;
use std::io::{self, IsTerminal, PipeReader, PipeWriter};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant};

use crate::tui::turns;
use crossterm::event::Event;
use filedescriptor::{POLLIN, pollfd};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

/// How long to look for an event that is there already.
const AT_ONCE: Duration = Duration::from_micros(50);
/// Events that are read ahead of the studio.
const AHEAD: usize = 4096;
/// Crossterm waits for the rest of a key that arrived in part; the studio does not.
const GRACE: Duration = Duration::from_millis(500);

pub struct TerminalEvents {
    events: mpsc::Receiver<io::Result<Event>>,
    resized: Signal,
    /// Dropped to stop the thread.
    stop: Option<PipeWriter>,
    /// Disconnected once the thread has ended.
    ended: std::sync::mpsc::Receiver<()>,
}

impl TerminalEvents {
    /// Begin to read. Another reader of the terminal must wait until this one is dropped.
    pub fn start() -> io::Result<Self> {
        let resized = signal(SignalKind::window_change())?;
        let terminal = terminal()?;
        let (stopped, stop) = io::pipe()?;
        let (sender, events) = mpsc::channel(AHEAD);
        let (end, ended) = sync_channel(0);
        std::thread::Builder::new().name("keys".into()).spawn(move || {
            turns::ask_for_short();
            if let Err(error) = read(&sender, &terminal, &stopped) {
                sender.blocking_send(Err(error)).ok();
            }
            drop::<SyncSender<()>>(end);
        })?;
        Ok(Self { events, resized, stop: Some(stop), ended })
    }

    /// The next event; `None` once the terminal is gone.
    pub async fn next(&mut self) -> Option<io::Result<Event>> {
        tokio::select! {
            event = self.events.recv() => event,
            Some(()) = self.resized.recv() => {
                Some(crossterm::terminal::size().map(|(columns, rows)| Event::Resize(columns, rows)))
            }
        }
    }

    /// The next event that has been read already.
    pub fn waiting(&mut self) -> Option<io::Result<Event>> {
        self.events.try_recv().ok()
    }
}

impl Drop for TerminalEvents {
    fn drop(&mut self) {
        // A thread whose events nobody takes waits for room.
        self.events.close();
        drop(self.stop.take());
        self.ended.recv_timeout(GRACE).ok();
    }
}

/// The terminal that crossterm reads.
fn terminal() -> io::Result<OwnedFd> {
    let stdin = io::stdin();
    if stdin.is_terminal() {
        return stdin.as_fd().try_clone_to_owned();
    }
    File::open("/dev/tty").map(OwnedFd::from)
}

/// Send events until the terminal is gone, cannot be read, or `stopped` is.
fn read(
    sender: &mpsc::Sender<io::Result<Event>>,
    terminal: &OwnedFd,
    stopped: &PipeReader,
) -> io::Result<()> {
    let of = |fd| pollfd { fd, events: POLLIN, revents: 0 };
    let mut sources = [of(terminal.as_raw_fd()), of(stopped.as_raw_fd())];
    loop {
        while let Some(event) = read_already()? {
            // The studio hears of a new size by the signal, whether or not a key follows it.
            if !matches!(event, Event::Resize(..)) && sender.blocking_send(Ok(event)).is_err() {
                return Ok(());
            }
        }
        match filedescriptor::poll(&mut sources, None) {
            Err(filedescriptor::Error::Poll(error)) if error.kind() == io::ErrorKind::Interrupted => continue,
            polled => polled.map_err(io::Error::other)?,
        };
        let [terminal, stopped] = sources;
        if stopped.revents != 0 || terminal.revents & !POLLIN != 0 {
            return Ok(());
        }
    }
}

/// The next event of what the terminal has sent.
fn read_already() -> io::Result<Option<Event>> {
    loop {
        let begun = Instant::now();
        if crossterm::event::poll(AT_ONCE)? {
            return crossterm::event::read().map(Some);
        }
        // Where the processor was taken away meanwhile, crossterm may not have looked at all.
        if begun.elapsed() < 2 * AT_ONCE {
            return Ok(None);
        }
    }
}
