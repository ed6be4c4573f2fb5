//! What the terminal sends, read on a thread of its own.
//!
//! Crossterm's stream takes a lock whenever it is polled, which another thread of it holds while it waits for input: polled together
//! with all else that the studio waits for, it gave the processor away several times for each frame, and on a busy machine a
//! thread that does so waits for milliseconds.

use std::{io, thread::JoinHandle, time::Duration};

use crossterm::event::{Event, EventStream};
use futures_util::StreamExt;
use tokio::sync::{mpsc, oneshot};

/// How long to wait for the next event of a burst.
const AT_ONCE: Duration = Duration::from_micros(200);
/// Events that are read ahead of the studio.
const AHEAD: usize = 4096;

pub struct TerminalEvents {
    events: mpsc::Receiver<io::Result<Event>>,
    /// Dropped to stop the thread.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl TerminalEvents {
    /// Begin to read. Another reader of the terminal must wait until this one is dropped.
    pub fn start() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        let (sender, events) = mpsc::channel(AHEAD);
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new().name("keys".into()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = stopped => {}
                    () = read(&sender) => {}
                }
            });
        })?;
        Ok(Self { events, stop: Some(stop), thread: Some(thread) })
    }

    /// The next event; `None` once the terminal is gone.
    pub async fn next(&mut self) -> Option<io::Result<Event>> {
        self.events.recv().await
    }

    /// The next event that has been read already.
    pub fn waiting(&mut self) -> Option<io::Result<Event>> {
        self.events.try_recv().ok()
    }
}

impl Drop for TerminalEvents {
    fn drop(&mut self) {
        drop(self.stop.take());
        // The dropped sender wakes it, and it ends.
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

/// Send events until the terminal is gone or cannot be read.
async fn read(sender: &mpsc::Sender<io::Result<Event>>) {
    let mut stream = EventStream::new();
    while let Some(event) = stream.next().await {
        let mut next = Some(event);
        // Polled directly: the stream reads one event at a time on another thread, with which 200 kB of text that arrives as keys
        // takes a minute.
        while let Some(event) = next {
            let failed = event.is_err();
            if sender.send(event).await.is_err() || failed {
                return;
            }
            next = waiting().transpose();
        }
    }
}

fn waiting() -> io::Result<Option<Event>> {
    if crossterm::event::poll(AT_ONCE)? { crossterm::event::read().map(Some) } else { Ok(None) }
}
