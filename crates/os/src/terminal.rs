//! The terminal below crossterm: waiting for its input, its answers, where errors go.

use std::{
    fs::File,
    io::{self, Read, Write},
    time::Duration,
};

/// Whether a change of the terminal's size is one of crossterm's events; elsewhere it is a signal (see
/// [`resized`](crate::signals::Notice::resized)).
pub const SIZE_IS_AN_EVENT: bool = cfg!(windows);

/// Whether crossterm has to ask for the mouse by the system's calls, instead of a sequence to the terminal.
pub const MOUSE_IS_A_MODE: bool = cfg!(windows);

/// Whether a terminal has colors although no variable of the environment says so: those of Windows set no `TERM`.
pub const HAS_COLORS: bool = cfg!(windows);

/// Waits for input of the terminal that crossterm reads.
pub struct Input(system::Input);

/// Ends the waiting when it is dropped.
pub struct StopWaiting {
    _own: system::Stop,
}

/// What waits for input, and what ends that.
pub fn input() -> io::Result<(Input, StopWaiting)> {
    system::input().map(|(input, stop)| (Input(input), StopWaiting { _own: stop }))
}

impl Input {
    /// Wait until there is something to read. False if the waiting was ended, or the terminal is gone.
    pub fn wait(&mut self) -> io::Result<bool> {
        self.0.wait()
    }
}

/// The terminal of the process, to ask it something. [`io::ErrorKind::Unsupported`] on Windows, where answers are read as keys.
pub struct Terminal(File);

impl Terminal {
    pub fn open() -> io::Result<Self> {
        #[cfg(unix)]
        return File::options().read(true).write(true).open("/dev/tty").map(Self);
        #[cfg(windows)]
        return Err(io::ErrorKind::Unsupported.into());
    }

    /// Wait until there is something to read, or the time is over.
    pub fn is_readable(&self, limit: Duration) -> io::Result<bool> {
        #[cfg(unix)]
        return system::is_readable(&self.0, limit);
        #[cfg(windows)]
        {
            let _ = limit;
            Ok(false)
        }
    }
}

impl Read for Terminal {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.0.read(bytes)
    }
}

impl Write for Terminal {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// The terminal as a file that another program may write its errors to.
pub fn for_errors() -> io::Result<File> {
    File::options().write(true).open(if cfg!(windows) { "CONOUT$" } else { "/dev/tty" })
}

/// Let consoles of Windows obey escape sequences, also on standard error. Does nothing elsewhere, and to what is no console.
pub fn obey_sequences() {
    #[cfg(windows)]
    system::obey_sequences();
}

/// Standard error of this process, while it goes elsewhere. [`Redirected::restore`] undoes it; dropped, it stays.
pub struct Redirected(system::Redirected);

/// Let standard error go to a file, with what native libraries write to it.
pub fn redirect_errors(file: File) -> io::Result<Redirected> {
    system::redirect(file).map(Redirected)
}

impl Redirected {
    pub fn restore(self) {
        self.0.restore();
    }
}

#[cfg(unix)]
mod system {
    use std::{
        fs::File,
        io::{self, IsTerminal, PipeReader, PipeWriter},
        os::fd::{AsFd, AsRawFd, OwnedFd},
        time::Duration,
    };

    use filedescriptor::{POLLIN, pollfd};
    use rustix::event::{FdSetElement, fd_set_insert, fd_set_num_elements, select};

    pub(super) struct Input {
        terminal: OwnedFd,
        stopped: PipeReader,
    }

    pub(super) type Stop = PipeWriter;

    pub(super) fn input() -> io::Result<(Input, Stop)> {
        let stdin = io::stdin();
        // The one that crossterm reads.
        let terminal = match stdin.is_terminal() {
            true => stdin.as_fd().try_clone_to_owned()?,
            false => File::open("/dev/tty")?.into(),
        };
        let (stopped, stop) = io::pipe()?;
        Ok((Input { terminal, stopped }, stop))
    }

    impl Input {
        pub fn wait(&mut self) -> io::Result<bool> {
            let of = |fd| pollfd { fd, events: POLLIN, revents: 0 };
            let mut sources = [of(self.terminal.as_raw_fd()), of(self.stopped.as_raw_fd())];
            loop {
                match filedescriptor::poll(&mut sources, None) {
                    Err(filedescriptor::Error::Poll(error)) if error.kind() == io::ErrorKind::Interrupted => {
                    }
                    polled => {
                        polled.map_err(io::Error::other)?;
                        let [terminal, stopped] = sources;
                        return Ok(stopped.revents == 0 && terminal.revents & !POLLIN == 0);
                    }
                }
            }
        }
    }

    /// By `select`, because macOS cannot poll terminals.
    pub(super) fn is_readable(terminal: &File, limit: Duration) -> io::Result<bool> {
        let fd = terminal.as_raw_fd();
        let mut set = vec![FdSetElement::default(); fd_set_num_elements(1, fd + 1)];
        fd_set_insert(&mut set, fd);
        let limit = rustix::event::Timespec::try_from(limit).map_err(io::Error::other)?;
        // SAFETY: the set holds `fd` alone, which is open, and has room for every descriptor below `fd + 1`.
        let n = unsafe { select(fd + 1, Some(&mut set), None, None, Some(&limit)) }?;
        Ok(n > 0)
    }

    pub(super) struct Redirected(OwnedFd);

    pub(super) fn redirect(file: File) -> io::Result<Redirected> {
        let real = rustix::io::fcntl_dupfd_cloexec(io::stderr(), 3)?;
        rustix::stdio::dup2_stderr(file)?;
        Ok(Redirected(real))
    }

    impl Redirected {
        pub fn restore(self) {
            rustix::stdio::dup2_stderr(self.0).ok();
        }
    }
}

#[cfg(windows)]
mod system {
    use std::{
        fs::File,
        io,
        os::windows::io::{AsRawHandle, FromRawHandle, IntoRawHandle, OwnedHandle, RawHandle},
        sync::Arc,
    };

    use windows_sys::Win32::{
        Foundation::{WAIT_FAILED, WAIT_OBJECT_0},
        System::{
            Console::{
                ENABLE_PROCESSED_OUTPUT, ENABLE_VIRTUAL_TERMINAL_PROCESSING, GetConsoleMode, GetStdHandle,
                STD_ERROR_HANDLE, STD_OUTPUT_HANDLE, SetConsoleMode, SetStdHandle,
            },
            Threading::{CreateEventW, INFINITE, SetEvent, WaitForMultipleObjects},
        },
    };

    pub(super) struct Input {
        console: File,
        stopped: Arc<OwnedHandle>,
    }

    pub(super) struct Stop(Arc<OwnedHandle>);

    impl Drop for Stop {
        fn drop(&mut self) {
            // SAFETY: the handle of an event, which is open.
            unsafe { SetEvent(self.0.as_raw_handle()) };
        }
    }

    pub(super) fn input() -> io::Result<(Input, Stop)> {
        let console = File::options().read(true).write(true).open("CONIN$")?;
        // SAFETY: no pointer is passed.
        let event = unsafe { CreateEventW(std::ptr::null(), 1, 0, std::ptr::null()) };
        if event.is_null() {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the handle was just made, and nobody else has it.
        let stopped = Arc::new(unsafe { OwnedHandle::from_raw_handle(event) });
        Ok((Input { console, stopped: Arc::clone(&stopped) }, Stop(stopped)))
    }

    impl Input {
        pub fn wait(&mut self) -> io::Result<bool> {
            let handles = [self.stopped.as_raw_handle(), self.console.as_raw_handle()];
            // SAFETY: both handles are open.
            match unsafe { WaitForMultipleObjects(2, handles.as_ptr(), 0, INFINITE) } {
                WAIT_FAILED => Err(io::Error::last_os_error()),
                ready => Ok(ready != WAIT_OBJECT_0),
            }
        }
    }

    pub(super) fn obey_sequences() {
        for which in [STD_OUTPUT_HANDLE, STD_ERROR_HANDLE] {
            let mut mode = 0;
            // SAFETY: what is no console is refused.
            unsafe {
                let handle = GetStdHandle(which);
                if GetConsoleMode(handle, &raw mut mode) != 0 {
                    SetConsoleMode(
                        handle,
                        mode | ENABLE_PROCESSED_OUTPUT | ENABLE_VIRTUAL_TERMINAL_PROCESSING,
                    );
                }
            }
        }
    }

    /// The handle, and the descriptor of the C library, which native libraries write to.
    pub(super) struct Redirected {
        handle: RawHandle,
        descriptor: Option<i32>,
    }

    // SAFETY: a handle is a number of the process.
    unsafe impl Send for Redirected {}

    const STDERR: i32 = 2;

    pub(super) fn redirect(file: File) -> io::Result<Redirected> {
        let of_c = file.try_clone()?.into_raw_handle();
        // SAFETY: the handle that is set is never closed; the C library owns its copy.
        unsafe {
            let handle = GetStdHandle(STD_ERROR_HANDLE);
            if SetStdHandle(STD_ERROR_HANDLE, file.into_raw_handle()) == 0 {
                return Err(io::Error::last_os_error());
            }
            let descriptor = match libc::dup(STDERR) {
                -1 => None,
                real => {
                    let opened = libc::open_osfhandle(of_c as isize, libc::O_APPEND);
                    if opened != -1 {
                        libc::dup2(opened, STDERR);
                        libc::close(opened);
                    }
                    Some(real)
                }
            };
            Ok(Redirected { handle, descriptor })
        }
    }

    impl Redirected {
        pub fn restore(self) {
            // SAFETY: both were standard error before.
            unsafe {
                SetStdHandle(STD_ERROR_HANDLE, self.handle);
                if let Some(real) = self.descriptor {
                    libc::dup2(real, STDERR);
                    libc::close(real);
                }
            }
        }
    }
}
