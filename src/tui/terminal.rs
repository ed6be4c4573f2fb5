//! The terminal: set up at the start, restored on every exit.
//!
//! [`Screen`] restores it when dropped; the panic hook does so before the message is written when the studio's own thread panics,
//! so that the message is on the normal screen. A panic of another thread leaves the screen alone: its message goes to the
//! log, like everything that native libraries write to standard error meanwhile.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{cell::RefCell, path::Path, rc::Rc, time::Duration};

use crossterm::event::{
    DisableBracketedPaste, DisableFocusChange, DisableMouseCapture, EnableBracketedPaste, EnableFocusChange,
    EnableMouseCapture,
};
use crossterm::style::{Print, ResetColor};
use crossterm::terminal::{
    BeginSynchronizedUpdate, EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen,
    disable_raw_mode, enable_raw_mode,
};
use crossterm::{cursor, execute, queue};
use ratatui::layout::{Position, Rect};
use ratatui::{Terminal, backend::CrosstermBackend};
use specreel_os::signals;
use specreel_os::terminal::{MOUSE_IS_A_MODE, Redirected, redirect_errors};

use crate::look::StudioError;
use crate::tui::{painter::Painter, studio::Studio, terminal_writer::TerminalWriter};

static UP: AtomicBool = AtomicBool::new(false);
static FEATURES: Mutex<Features> = Mutex::new(Features { mouse: false, title: false, progress: false });
/// The real standard error while it goes to the log.
static REAL_STDERR: Mutex<Option<Redirected>> = Mutex::new(None);

/// Report presses and the wheel, with positions in decimal (SGR). Crossterm's own also asks for every motion.
const TAKE_MOUSE: &str = "\x1b[?1000h\x1b[?1006h";
const LEAVE_MOUSE: &str = "\x1b[?1006l\x1b[?1000l";

/// Push the window's title on the terminal's stack, and pop it; a terminal without a stack gets an empty one, its own.
const KEEP_TITLE: &str = "\x1b[22;2t";
const GIVE_TITLE_BACK: &str = "\x1b]2;\x1b\\\x1b[23;2t";
const END_PROGRESS: &str = "\x1b]9;4;0\x1b\\";

/// How long the terminal may take to read its last frame before the screen is restored.
const GRACE: Duration = Duration::from_millis(500);

/// A frame's bytes, until they are sent as a whole.
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

/// What else is used of the terminal, and restored at the end.
#[derive(Clone, Copy)]
pub(crate) struct Features {
    pub mouse: bool,
    pub title: bool,
    pub progress: bool,
}

pub(crate) struct Screen {
    terminal: Terminal<CrosstermBackend<Page>>,
    page: Page,
    writer: TerminalWriter,
}

fn trouble(doing: &'static str) -> impl Fn(io::Error) -> StudioError {
    move |source| StudioError::Terminal { doing, source }
}

impl Screen {
    /// Set up the terminal. Standard error is redirected to `log`. `through` is called on another thread whenever the terminal
    /// has read a frame.
    pub fn take(
        log: Option<&Path>,
        features: Features,
        through: impl Fn() + Send + 'static,
    ) -> Result<Self, StudioError> {
        hook_panics();
        *lock(&FEATURES) = features;
        if let Some(log) = log {
            // Without a log the studio still runs; a library's output may then garble the screen until it is redrawn.
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

    pub fn size(&self) -> (u16, u16) {
        self.terminal.size().map_or((80, 24), |s| (s.width, s.height))
    }

    pub fn cell() -> Option<(u16, u16)> {
        let size = crossterm::terminal::window_size().ok()?;
        let side = |pixels: u16, cells: u16| pixels.checked_div(cells).filter(|side| *side > 0);
        Some((side(size.width, size.columns)?, side(size.height, size.rows)?))
    }

    pub fn is_idle(&self) -> bool {
        self.writer.is_idle()
    }

    /// Draw one frame as one update of the screen; the writer thread sends it.
    pub fn draw(&mut self, studio: &Studio, painter: &mut Painter) -> Result<(), StudioError> {
        queue!(self.page, BeginSynchronizedUpdate).map_err(trouble("draw on"))?;
        let draw = |frame: &mut ratatui::Frame<'_>| {
            let slot = studio.draw(frame.buffer_mut());
            painter.paint(slot, frame.buffer_mut());
        };
        let drawn = self.terminal.draw(draw).map(|_| ());
        queue!(self.page, EndSynchronizedUpdate).map_err(trouble("draw on"))?;
        drawn.and_then(|()| self.send()).map_err(trouble("draw on"))
    }

    fn send(&self) -> io::Result<()> {
        self.writer.send(&self.page.0.take())
    }

    /// Redraw the whole screen with the next frame.
    ///
    /// Ratatui's own `clear` asks the terminal for the cursor position, and the answer would be read as keys.
    pub fn clear(&mut self) -> Result<(), StudioError> {
        let size = self.terminal.size().map_err(trouble("draw on"))?;
        self.terminal.resize(Rect::from((Position::ORIGIN, size))).map_err(trouble("draw on"))
    }

    pub fn copy(&mut self, text: &str) -> Result<(), StudioError> {
        use base64::Engine;
        let encoded = base64::engine::general_purpose::STANDARD.encode(text);
        self.say(&format!("\u{1b}]52;c;{encoded}\u{7}"))
    }

    /// Send an escape sequence that shows nothing.
    pub fn say(&mut self, sequence: &str) -> Result<(), StudioError> {
        self.page.write_all(sequence.as_bytes()).and_then(|()| self.send()).map_err(trouble("write to"))
    }

    /// Restore the terminal and stop the process until the shell continues it.
    pub fn suspend(&mut self) -> Result<(), StudioError> {
        self.release();
        signals::stop();
        self.resume()
    }

    /// Give the terminal to another program until [`Screen::resume`].
    pub fn release(&mut self) {
        self.writer.wait_idle(GRACE);
        leave_screen();
    }

    /// Set up the terminal again after [`Screen::release`] or a stop.
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
            // The terminal reads nothing, and a write would keep the program from exiting.
            UP.store(false, Ordering::SeqCst);
            disable_raw_mode().ok();
            restore_stderr();
        }
    }
}

fn enter() -> io::Result<()> {
    enable_raw_mode()?;
    UP.store(true, Ordering::SeqCst);
    execute!(io::stdout(), EnterAlternateScreen, EnableBracketedPaste, EnableFocusChange, cursor::Hide)?;
    let Features { mouse, title, .. } = *lock(&FEATURES);
    if title {
        execute!(io::stdout(), Print(KEEP_TITLE))?;
    }
    match mouse {
        true if MOUSE_IS_A_MODE => execute!(io::stdout(), EnableMouseCapture),
        true => execute!(io::stdout(), Print(TAKE_MOUSE)),
        false => Ok(()),
    }
}

/// Undo [`enter`], if the studio has the screen.
fn leave_screen() {
    if UP.swap(false, Ordering::SeqCst) {
        // The terminal may be gone.
        let Features { mouse, title, progress } = *lock(&FEATURES);
        if mouse && MOUSE_IS_A_MODE {
            execute!(io::stdout(), DisableMouseCapture).ok();
        }
        let mouse = mouse && !MOUSE_IS_A_MODE;
        let end = [(mouse, LEAVE_MOUSE), (title, GIVE_TITLE_BACK), (progress, END_PROGRESS)];
        for (_, sequence) in end.into_iter().filter(|(is_used, _)| *is_used) {
            execute!(io::stdout(), Print(sequence)).ok();
        }
        execute!(
            io::stdout(),
            EndSynchronizedUpdate,
            ResetColor,
            DisableFocusChange,
            DisableBracketedPaste,
            LeaveAlternateScreen,
            cursor::Show
        )
        .ok();
        disable_raw_mode().ok();
    }
}

fn leave() {
    leave_screen();
    restore_stderr();
}

/// Restore the terminal before the message of a panic of the studio's thread is written.
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

fn redirect_stderr(log: &Path) -> io::Result<()> {
    if let Some(folder) = log.parent() {
        specreel_client::private::create_dir_all(folder)?;
    }
    let file = specreel_client::private::options().create(true).append(true).open(log)?;
    *lock(&REAL_STDERR) = Some(redirect_errors(file)?);
    Ok(())
}

fn restore_stderr() {
    if let Some(real) = lock(&REAL_STDERR).take() {
        real.restore();
    }
}

fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
