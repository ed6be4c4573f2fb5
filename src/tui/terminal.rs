//! The terminal's lifetime: set up, given back on every way out.
//!
//! The guard undoes what was done in its `Drop`; the panic hook does the same first when the studio's own thread panics,
//! so that the message stands on the normal screen. A panic of another thread leaves the screen alone: its words go to the
//! log, like everything that native libraries write to standard error while the studio is up.

use std::{
    cell::RefCell,
    fs::OpenOptions,
    io::{self, Write},
    path::Path,
    rc::Rc,
    sync::atomic::{AtomicBool, AtomicI32, Ordering},
    time::Duration,
};

use crossterm::{
    cursor,
    event::{DisableBracketedPaste, DisableMouseCapture, EnableBracketedPaste, EnableMouseCapture},
    execute, queue,
    style::ResetColor,
    terminal::{
        BeginSynchronizedUpdate, EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen,
        disable_raw_mode, enable_raw_mode,
    },
};
use ratatui::{
    Terminal,
    backend::CrosstermBackend,
    layout::{Position, Rect},
};

use super::{Studio, StudioError, painter::Painter, terminal_writer::TerminalWriter};

/// The screen is ours.
static UP: AtomicBool = AtomicBool::new(false);
/// The mouse is to be ours, too.
static MOUSE: AtomicBool = AtomicBool::new(false);
/// The real standard error while fd 2 goes to the log; -1 otherwise.
static REAL_STDERR: AtomicI32 = AtomicI32::new(-1);

/// How long a terminal may take to read its last frame before the screen is given back over it.
const GRACE: Duration = Duration::from_millis(500);

/// What is written of a frame, until it is sent as a whole.
#[derive(Clone, Default)]
struct Page(Rc<RefCell<Vec<u8>>>);

impl Write for Page {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The terminal while the studio is on it.
pub(crate) struct Screen {
    terminal: Terminal<CrosstermBackend<Page>>,
    page: Page,
    writer: TerminalWriter,
}

fn trouble(doing: &'static str) -> impl Fn(io::Error) -> StudioError {
    move |source| StudioError::Terminal { doing, source }
}

impl Screen {
    /// Take the terminal, with the mouse if so wanted. `log` gets what is written to standard error meanwhile; `through` is called, on another thread,
    /// whenever the terminal has read a frame.
    pub fn take(
        log: Option<&Path>,
        mouse: bool,
        through: impl Fn() + Send + 'static,
    ) -> Result<Self, StudioError> {
        hook_panics();
        MOUSE.store(mouse, Ordering::SeqCst);
        if let Some(log) = log {
            // Without a log file the studio still runs; a library's words may then spoil the screen until it is redrawn.
            redirect_stderr(log).ok();
        }
        let page = Page::default();
        let set_up = || {
            let writer = TerminalWriter::start(io::stdout(), through)?;
            enter()?;
            let terminal = Terminal::new(CrosstermBackend::new(page.clone()))?;
            Ok(Self { terminal, page, writer })
        };
        set_up().map_err(|e| {
            leave();
            trouble("set up")(e)
        })
    }

    /// Columns and rows.
    pub fn size(&self) -> (u16, u16) {
        self.terminal.size().map_or((80, 24), |s| (s.width, s.height))
    }

    /// Width and height of a cell in pixels, where the terminal's size in pixels is known.
    pub fn cell() -> Option<(u16, u16)> {
        let size = crossterm::terminal::window_size().ok()?;
        let side = |pixels: u16, cells: u16| pixels.checked_div(cells).filter(|side| *side > 0);
        Some((side(size.width, size.columns)?, side(size.height, size.rows)?))
    }

    /// True if the terminal has read all frames.
    pub fn is_idle(&self) -> bool {
        self.writer.is_idle()
    }

    /// Draw one frame as one update of the screen. It is on its way when this returns.
    pub fn draw(&mut self, studio: &Studio, painter: &mut Painter) -> Result<(), StudioError> {
        queue!(self.page, BeginSynchronizedUpdate).map_err(trouble("draw on"))?;
        let draw = |frame: &mut ratatui::Frame<'_>| {
            let slot = studio.draw_with_slot(frame);
            painter.paint(slot, frame.buffer_mut());
        };
        let drawn = self.terminal.draw(draw).map(|_| ());
        queue!(self.page, EndSynchronizedUpdate).map_err(trouble("draw on"))?;
        drawn.and_then(|()| self.send()).map_err(trouble("draw on"))
    }

    fn send(&self) -> io::Result<()> {
        self.writer.send(&self.page.0.take())
    }

    /// Forget what is on the screen, so that the next frame draws all of it.
    ///
    /// Not by ratatui's own `clear`: it asks the terminal where the cursor is, and the answer would be read as keys.
    pub fn clear(&mut self) -> Result<(), StudioError> {
        let size = self.terminal.size().map_err(trouble("draw on"))?;
        self.terminal.resize(Rect::from((Position::ORIGIN, size))).map_err(trouble("draw on"))
    }

    /// Put a text on the clipboard by the terminal (OSC 52).
    pub fn copy(&mut self, text: &str) -> Result<(), StudioError> {
        use base64::Engine;
        let encoded = base64::engine::general_purpose::STANDARD.encode(text);
        self.say(&format!("\u{1b}]52;c;{encoded}\u{7}"))
    }

    /// Send the terminal a sequence that shows nothing.
    pub fn say(&mut self, sequence: &str) -> Result<(), StudioError> {
        self.page.write_all(sequence.as_bytes()).and_then(|()| self.send()).map_err(trouble("write to"))
    }

    /// Give the terminal back to the shell and stop until it continues the process.
    pub fn suspend(&mut self) -> Result<(), StudioError> {
        self.writer.wait_idle(GRACE);
        leave_screen();
        stop_process();
        self.resume()
    }

    /// Give the terminal to somebody else while `f` runs.
    pub fn lend<T>(&mut self, f: impl FnOnce() -> T) -> Result<T, StudioError> {
        self.writer.wait_idle(GRACE);
        leave_screen();
        let out = f();
        self.resume()?;
        Ok(out)
    }

    /// Take the terminal again after a stop.
    pub fn resume(&mut self) -> Result<(), StudioError> {
        enter().map_err(trouble("set up"))?;
        self.clear()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if self.writer.wait_idle(GRACE) {
            leave();
        } else {
            // The terminal reads nothing: what is written to it would only keep the program from ending.
            UP.store(false, Ordering::SeqCst);
            disable_raw_mode().ok();
            restore_stderr();
        }
    }
}

fn enter() -> io::Result<()> {
    enable_raw_mode()?;
    UP.store(true, Ordering::SeqCst);
    execute!(io::stdout(), EnterAlternateScreen, EnableBracketedPaste, cursor::Hide)?;
    if MOUSE.load(Ordering::SeqCst) {
        execute!(io::stdout(), EnableMouseCapture)?;
    }
    Ok(())
}

/// Undo [`enter`]; nothing where the screen is not ours.
fn leave_screen() {
    if UP.swap(false, Ordering::SeqCst) {
        // Nothing can be done about a terminal that is gone.
        if MOUSE.load(Ordering::SeqCst) {
            execute!(io::stdout(), DisableMouseCapture).ok();
        }
        execute!(
            io::stdout(),
            EndSynchronizedUpdate,
            ResetColor,
            DisableBracketedPaste,
            LeaveAlternateScreen,
            cursor::Show
        )
        .ok();
        disable_raw_mode().ok();
    }
}

/// Undo everything.
fn leave() {
    leave_screen();
    restore_stderr();
}

/// When the studio's thread panics, give the terminal back before the message is written.
fn hook_panics() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let studio = std::thread::current().id();
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if std::thread::current().id() == studio {
                leave();
            }
            before(panic);
        }));
    });
}

#[cfg(unix)]
fn stop_process() {
    // The whole group, as the terminal itself would: a wrapper that started us must stop, too.
    // SAFETY: kill with a signal number has no preconditions.
    unsafe {
        libc::kill(0, libc::SIGTSTP);
    }
}

#[cfg(not(unix))]
fn stop_process() {}

#[cfg(unix)]
fn redirect_stderr(log: &Path) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    if let Some(folder) = log.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let file = OpenOptions::new().create(true).append(true).open(log)?;
    // SAFETY: fd 2 and the file's fd are open; dup and dup2 touch only the table of open files.
    unsafe {
        let real = libc::dup(2);
        if real < 0 {
            return Err(io::Error::last_os_error());
        }
        libc::fcntl(real, libc::F_SETFD, libc::FD_CLOEXEC);
        if libc::dup2(file.as_raw_fd(), 2) < 0 {
            let error = io::Error::last_os_error();
            libc::close(real);
            return Err(error);
        }
        REAL_STDERR.store(real, Ordering::SeqCst);
    }
    Ok(())
}

#[cfg(unix)]
fn restore_stderr() {
    let real = REAL_STDERR.swap(-1, Ordering::SeqCst);
    if real >= 0 {
        // SAFETY: `real` is the descriptor that `redirect_stderr` duplicated; nobody else closes it.
        unsafe {
            libc::dup2(real, 2);
            libc::close(real);
        }
    }
}

#[cfg(not(unix))]
fn redirect_stderr(_log: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(not(unix))]
fn restore_stderr() {}
