//! Signals: to end, that the program continues after a stop, that the size of its terminal has changed.

use std::io;

/// Why the program shall end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Ctrl-C.
    Interrupt,
    /// SIGTERM; on Windows Ctrl-Break.
    Terminate,
    /// SIGHUP: the terminal is gone. On Windows its window is closed, or the user logs off.
    HangUp,
}

impl Ending {
    /// The number of the signal, by which shells name the exit code (128 and the number) on every system.
    pub fn number(self) -> i32 {
        match self {
            Self::HangUp => 1,
            Self::Interrupt => 2,
            Self::Terminate => 15,
        }
    }
}

/// The signals that end the program, caught from the call of [`Endings::listen`] on.
pub struct Endings(system::Endings);

impl Endings {
    /// Catch the signals; within a runtime with I/O. A SIGHUP that is ignored (`nohup`) stays ignored.
    pub fn listen() -> io::Result<Self> {
        system::Endings::listen().map(Self)
    }

    /// The next one.
    pub async fn next(&mut self) -> Ending {
        self.0.next().await
    }
}

/// A signal that ends nothing.
pub struct Notice(system::Notice);

impl Notice {
    /// The program was stopped and continues (SIGCONT); the terminal may have changed meanwhile. Never on Windows. Within a runtime
    /// with I/O.
    pub fn continued() -> io::Result<Self> {
        system::Notice::continued().map(Self)
    }

    /// The size of the terminal has changed (SIGWINCH). Never on Windows, where that is an event of the terminal. Within a runtime
    /// with I/O.
    pub fn resized() -> io::Result<Self> {
        system::Notice::resized().map(Self)
    }

    /// The next one.
    pub async fn next(&mut self) {
        self.0.next().await;
    }
}

/// Whether the user can stop the program and return to the shell, which continues it.
pub const CAN_STOP: bool = cfg!(unix);

/// Stop the process group until the shell continues it, as the terminal's own key would: a program that started this one stops too.
/// Does nothing on Windows.
pub fn stop() {
    #[cfg(unix)]
    rustix::process::kill_current_process_group(rustix::process::Signal::TSTP).ok();
}

#[cfg(unix)]
mod system {
    use std::io;

    use rustix::process::Signal as Kind;
    use tokio::signal::unix::{Signal, SignalKind, signal};

    use super::Ending;

    pub(super) struct Endings {
        interrupt: Signal,
        terminate: Signal,
        hang_up: Option<Signal>,
    }

    impl Endings {
        pub fn listen() -> io::Result<Self> {
            let heard = !is_ignored(Kind::HUP);
            Ok(Self {
                interrupt: signal(SignalKind::interrupt())?,
                terminate: signal(SignalKind::terminate())?,
                hang_up: heard.then(|| signal(SignalKind::hangup())).transpose()?,
            })
        }

        pub async fn next(&mut self) -> Ending {
            let hang_up = async {
                match &mut self.hang_up {
                    Some(signal) => signal.recv().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = self.interrupt.recv() => Ending::Interrupt,
                _ = self.terminate.recv() => Ending::Terminate,
                _ = hang_up => Ending::HangUp,
            }
        }
    }

    fn is_ignored(kind: Kind) -> bool {
        // SAFETY: all-zero bytes are a valid `sigaction`; with a null pointer for the new action the call only writes the old one.
        unsafe {
            let mut old: libc::sigaction = std::mem::zeroed();
            libc::sigaction(kind.as_raw(), std::ptr::null(), &raw mut old) == 0
                && old.sa_sigaction == libc::SIG_IGN
        }
    }

    pub(super) struct Notice(Signal);

    impl Notice {
        pub fn continued() -> io::Result<Self> {
            signal(SignalKind::from_raw(Kind::CONT.as_raw())).map(Self)
        }

        pub fn resized() -> io::Result<Self> {
            signal(SignalKind::window_change()).map(Self)
        }

        pub async fn next(&mut self) {
            self.0.recv().await;
        }
    }
}

#[cfg(windows)]
mod system {
    use std::io;

    use tokio::signal::windows::{
        CtrlBreak, CtrlC, CtrlClose, CtrlLogoff, CtrlShutdown, ctrl_break, ctrl_c, ctrl_close, ctrl_logoff,
        ctrl_shutdown,
    };

    use super::Ending;

    pub(super) struct Endings {
        interrupt: CtrlC,
        terminate: CtrlBreak,
        close: CtrlClose,
        log_off: CtrlLogoff,
        shut_down: CtrlShutdown,
    }

    impl Endings {
        pub fn listen() -> io::Result<Self> {
            Ok(Self {
                interrupt: ctrl_c()?,
                terminate: ctrl_break()?,
                close: ctrl_close()?,
                log_off: ctrl_logoff()?,
                shut_down: ctrl_shutdown()?,
            })
        }

        pub async fn next(&mut self) -> Ending {
            tokio::select! {
                _ = self.interrupt.recv() => Ending::Interrupt,
                _ = self.terminate.recv() => Ending::Terminate,
                _ = self.close.recv() => Ending::HangUp,
                _ = self.log_off.recv() => Ending::HangUp,
                _ = self.shut_down.recv() => Ending::HangUp,
            }
        }
    }

    pub(super) struct Notice;

    impl Notice {
        pub fn continued() -> io::Result<Self> {
            Ok(Self)
        }

        pub fn resized() -> io::Result<Self> {
            Ok(Self)
        }

        pub async fn next(&mut self) {
            std::future::pending().await
        }
    }
}
