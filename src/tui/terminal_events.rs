//! What the terminal sends, read on a thread of its own.
//!
//! Crossterm's stream of events is not used: it has a thread that may still wait for input after the stream is dropped, and on a
//! busy machine takes the first keys from an editor. Here one thread waits both for the terminal and for its
//! own end, and once [`TerminalEvents`] is dropped, nothing reads the terminal any more. It is also one
//! thread less between a key and its frame.

use std::io;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant};

use crossterm::event::Event;
use specreel_os::signals::Notice;
use specreel_os::terminal::{Input, SIZE_IS_AN_EVENT, StopWaiting, input};
use specreel_os::threads::ask_for_short_turns;
use tokio::sync::mpsc;

/// How long to look for an event that is there already.
const AT_ONCE: Duration = Duration::from_micros(50);
/// Events that are read ahead of the studio.
const AHEAD: usize = 4096;
/// Crossterm waits for the rest of a key that arrived in part; the studio does not.
const GRACE: Duration = Duration::from_millis(500);

pub struct TerminalEvents {
    events: mpsc::Receiver<io::Result<Event>>,
    resized: Notice,
    /// Dropped to stop the thread.
    stop: Option<StopWaiting>,
    /// Disconnected once the thread has ended.
    ended: std::sync::mpsc::Receiver<()>,
}

impl TerminalEvents {
    /// Begin to read. Another reader of the terminal must wait until this one is dropped.
    pub fn start() -> io::Result<Self> {
        let resized = Notice::resized()?;
        let (mut input, stop) = input()?;
        let (sender, events) = mpsc::channel(AHEAD);
        let (end, ended) = sync_channel(0);
        std::thread::Builder::new().name("keys".into()).spawn(move || {
            ask_for_short_turns();
            if let Err(error) = read(&sender, &mut input) {
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
            () = self.resized.next() => {
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

/// Send events until the terminal is gone, cannot be read, or the waiting is ended.
fn read(sender: &mpsc::Sender<io::Result<Event>>, input: &mut Input) -> io::Result<()> {
    loop {
        while let Some(event) = read_already()? {
            // Where a new size is a signal, the studio hears of it by that, whether or not a key follows it.
            let is_told = matches!(event, Event::Resize(..)) && !SIZE_IS_AN_EVENT;
            if !is_told && sender.blocking_send(Ok(event)).is_err() {
                return Ok(());
            }
        }
        if !input.wait()? {
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
