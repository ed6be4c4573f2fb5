//! Signals that ask for an end: Ctrl-C, SIGTERM, SIGHUP. The first one asks, the second ends the process at once.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI32, Ordering},
    },
    time::Duration,
};

use tokio::{
    runtime::Runtime,
    signal::unix::{Signal, SignalKind, signal},
    sync::Notify,
};

use super::End;
use crate::record::{Failure, FailureClass};

/// File descriptors that a command may need beside those that are open: its files, the models' shards, what signals take.
const DESCRIPTORS: usize = 32;

/// The number of the first signal that asked for an end; 0 before. Signals belong to the process, and so does this.
static SIGNAL: AtomicI32 = AtomicI32::new(0);

/// Whether somebody asked for an end.
#[derive(Clone, Debug, Default)]
pub struct Interrupt {
    asked: Arc<AtomicBool>,
    woken: Arc<Notify>,
}

/// Exit code after an interrupt: 128 and the signal's number, which is 130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP.
pub fn interrupted() -> i32 {
    match SIGNAL.load(Ordering::SeqCst) {
        0 => 128 + libc::SIGINT,
        number => 128 + number,
    }
}

impl Interrupt {
    /// Somebody did.
    pub fn ask(&self) {
        self.asked.store(true, Ordering::SeqCst);
        self.woken.notify_one();
    }

    /// True if somebody did.
    pub fn asked(&self) -> bool {
        self.asked.load(Ordering::SeqCst)
    }

    /// Wait until somebody did, and then this long.
    pub async fn waited(&self, grace: Duration) {
        while !self.asked() {
            self.woken.notified().await;
        }
        tokio::time::sleep(grace).await;
    }

    /// Listen on a thread of its own, so that a blocked write cannot make us deaf. `cancel` is called after
    /// [`Interrupt::asked`] has become true. A hang-up that was ignored when the program started (`nohup`) stays ignored.
    ///
    /// # Errors
    /// The system gives no thread or no signal.
    pub fn listen(&self, cancel: impl Fn() + Send + 'static) -> Result<(), End> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().map_err(refused)?;
        // Registered here: an interrupt from now on is ours.
        let guard = runtime.enter();
        let mut signals = Signals::new().map_err(refused)?;
        drop(guard);
        let this = self.clone();
        let listener = move || {
            runtime.block_on(async move {
                SIGNAL.store(signals.next().await, Ordering::SeqCst);
                this.ask();
                cancel();
                std::process::exit(128 + signals.next().await);
            });
        };
        std::thread::Builder::new().name("interrupts".into()).spawn(listener).map_err(refused)?;
        Ok(())
    }
}

/// The signals that ask for an end.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Option<Signal>,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        let heard = !is_ignored(libc::SIGHUP);
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: heard.then(|| signal(SignalKind::hangup())).transpose()?,
        })
    }

    /// The number of the next one.
    async fn next(&mut self) -> i32 {
        let hang_up = async {
            match &mut self.hang_up {
                Some(signal) => signal.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => libc::SIGINT,
            _ = self.terminate.recv() => libc::SIGTERM,
            _ = hang_up => libc::SIGHUP,
        }
    }
}

fn is_ignored(number: i32) -> bool {
    // SAFETY: all-zero bytes are a valid `sigaction`; with a null pointer for the new action the call only writes the old one.
    unsafe {
        let mut old: libc::sigaction = std::mem::zeroed();
        libc::sigaction(number, std::ptr::null(), &raw mut old) == 0 && old.sa_sigaction == libc::SIG_IGN
    }
}

/// A runtime of this thread, with a clock.
///
/// # Errors
/// The system gives no descriptors for it.
pub fn runtime() -> Result<Runtime, End> {
    tokio::runtime::Builder::new_current_thread().enable_time().build().map_err(refused)
}

/// Refuse to begin where so few descriptors are left that something would break off in its middle.
///
/// # Errors
/// That (class input).
pub fn descriptors() -> Result<(), Failure> {
    let mut open = Vec::with_capacity(DESCRIPTORS);
    for _ in 0..DESCRIPTORS {
        match std::fs::File::open("/dev/null") {
            Ok(file) => open.push(file),
            Err(e) if is_too_many(&e) => return Err(too_many(&e)),
            // A system without that file.
            Err(_) => break,
        }
    }
    Ok(())
}

fn is_too_many(error: &std::io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

fn too_many(error: &std::io::Error) -> Failure {
    Failure {
        class: FailureClass::Input,
        error: format!("the system lets specreel open too few files: {error}"),
        hint: Some("raise the limit, for example with: ulimit -n 1024".into()),
    }
}

/// The system gave no runtime, signal or thread.
fn refused(error: std::io::Error) -> End {
    End::Failed(match is_too_many(&error) {
        true => too_many(&error),
        false => Failure {
            class: FailureClass::Internal,
            error: format!("the system gives no thread or signal: {error}"),
            hint: Some("is a limit of processes reached? see ulimit -a".into()),
        },
    })
}
