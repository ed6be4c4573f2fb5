//! Writes frames to the terminal, on a thread of its own.
//!
//! A terminal may be slow: a slow line, a window that is being dragged, stopped output (`Ctrl-S`). Only this thread waits for it.
//! The studio keeps handling keys, signals and events, and draws its next frame when the last one is written; so frames do not
//! queue up, and decoding speed does not depend on the terminal.

use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use specreel_os::threads::ask_for_short_turns;

pub(crate) struct TerminalWriter {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: Vec<u8>,
    writing: bool,
    closed: bool,
    failed: Option<io::Error>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic cannot leave the state inconsistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TerminalWriter {
    /// Start writing to `out`; `through` is called on the writing thread whenever all is written.
    pub fn start(
        mut out: impl Write + Send + 'static,
        through: impl Fn() + Send + 'static,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared { state: Mutex::default(), changed: Condvar::new() });
        let of_thread = Arc::clone(&shared);
        std::thread::Builder::new().name("terminal".into()).spawn(move || {
            ask_for_short_turns();
            loop {
                let mut state = of_thread.lock();
                while state.waiting.is_empty() && !state.closed {
                    state = of_thread.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                if state.waiting.is_empty() {
                    return;
                }
                let bytes = std::mem::take(&mut state.waiting);
                state.writing = true;
                drop(state);
                let written = out.write_all(&bytes).and_then(|()| out.flush());
                let mut state = of_thread.lock();
                state.writing = false;
                if let Err(error) = written {
                    state.failed = Some(error);
                    state.waiting.clear();
                }
                drop(state);
                of_thread.changed.notify_all();
                through();
            }
        })?;
        Ok(Self { shared })
    }

    pub fn send(&self, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.shared.lock();
        if let Some(error) = state.failed.take() {
            return Err(error);
        }
        state.waiting.extend_from_slice(bytes);
        drop(state);
        self.shared.changed.notify_all();
        Ok(())
    }

    pub fn is_idle(&self) -> bool {
        let state = self.shared.lock();
        state.waiting.is_empty() && !state.writing
    }

    pub fn wait_idle(&self, at_most: Duration) -> bool {
        let until = Instant::now() + at_most;
        let mut state = self.shared.lock();
        while !state.waiting.is_empty() || state.writing {
            let Some(left) = until.checked_duration_since(Instant::now()) else { return false };
            let waited = self.shared.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

impl Drop for TerminalWriter {
    fn drop(&mut self) {
        // Not joined: the terminal may never read.
        self.shared.lock().closed = true;
        self.shared.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    const LONG: Duration = Duration::from_secs(30);

    /// A terminal that reads when it is allowed to.
    struct Slow {
        allowed: mpsc::Receiver<()>,
        seen: mpsc::SyncSender<Vec<u8>>,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.allowed.recv().map_err(|_| io::ErrorKind::BrokenPipe)?;
            self.seen.send(bytes.to_vec()).ok();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_slow_terminal_delays_nobody_and_nothing_is_lost() {
        let (allow, allowed) = mpsc::sync_channel(8);
        let (seen, screen) = mpsc::sync_channel(8);
        let (through, told) = mpsc::sync_channel(8);
        let writer =
            TerminalWriter::start(Slow { allowed, seen }, move || through.send(()).unwrap()).unwrap();
        assert!(writer.is_idle() && writer.wait_idle(LONG));
        writer.send(b"one").unwrap();
        assert!(!writer.is_idle() && !writer.wait_idle(Duration::from_millis(1)));
        allow.send(()).unwrap();
        told.recv_timeout(LONG).unwrap();
        assert!(writer.is_idle());
        writer.send(b"two").unwrap();
        writer.send(b"three").unwrap();
        allow.send(()).unwrap();
        allow.send(()).unwrap();
        assert!(writer.wait_idle(LONG));
        assert_eq!(screen.try_iter().collect::<Vec<_>>().concat(), b"onetwothree");
    }

    #[test]
    fn a_closed_terminal_is_an_error_at_the_next_frame() {
        let (allow, allowed) = mpsc::sync_channel(8);
        let writer = TerminalWriter::start(Slow { allowed, seen: mpsc::sync_channel(8).0 }, || {}).unwrap();
        drop(allow);
        writer.send(b"one").unwrap();
        assert!(writer.wait_idle(LONG));
        assert_eq!(writer.send(b"two").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
