//! A terminal without a window: a pseudo-terminal, the program in it, and the screen as an emulator sees it.

use std::{
    collections::HashSet,
    io::{Read, Write},
    num::NonZeroU16,
    path::PathBuf,
    process::Command,
    sync::{Arc, Condvar, Mutex},
    time::{Duration, Instant},
};

use assert_cmd::cargo::cargo_bin;
use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};

use crate::BINARY;

/// Machines are slow: nothing is given up before this.
pub const TOO_LONG: Duration = Duration::from_secs(60);

struct Seen {
    parser: vt100::Parser,
    ended: bool,
    frames: usize,
    raw: Vec<u8>,
    /// Nothing is read meanwhile.
    stopped: bool,
}

/// The program on its screen.
pub struct Terminal {
    master: Box<dyn MasterPty + Send>,
    keyboard: Box<dyn Write + Send>,
    child: Box<dyn Child + Send + Sync>,
    seen: Arc<(Mutex<Seen>, Condvar)>,
    begun: Instant,
    home: tempfile::TempDir,
}

fn size(columns: u16, rows: u16) -> PtySize {
    PtySize { rows, cols: columns, pixel_width: 0, pixel_height: 0 }
}

fn contains(bytes: &[u8], part: &str) -> bool {
    bytes.windows(part.len()).any(|w| w == part.as_bytes())
}

fn cells(n: u16) -> NonZeroU16 {
    NonZeroU16::new(n).unwrap()
}

impl Terminal {
    /// Start the program with these arguments in a home of its own.
    pub fn start(columns: u16, rows: u16, args: &[&str]) -> Self {
        Self::start_with(columns, rows, args, &[])
    }

    /// The same, with these variables in its environment.
    pub fn start_with(columns: u16, rows: u16, args: &[&str], variables: &[(&str, &str)]) -> Self {
        Self::start_program(cargo_bin(BINARY).to_str().unwrap(), columns, rows, args, variables)
    }

    /// Another program that starts this one.
    pub fn start_program(
        program: &str,
        columns: u16,
        rows: u16,
        args: &[&str],
        variables: &[(&str, &str)],
    ) -> Self {
        let home = tempfile::tempdir().unwrap();
        let pair = native_pty_system().openpty(size(columns, rows)).unwrap();
        let mut command = CommandBuilder::new(program);
        command.args(args);
        command.cwd(home.path());
        command.env("HOME", home.path());
        command.env("SPECREEL_GPU", "off");
        command.env("TERM", "xterm-256color");
        command.env("COLORTERM", "truecolor");
        for name in ["CONFIG", "DATA", "STATE", "CACHE"] {
            command.env_remove(format!("XDG_{name}_HOME"));
        }
        for name in "STY ZELLIJ NO_COLOR COLORFGBG VISUAL EDITOR LC_ALL LC_CTYPE LANG TMUX".split(' ') {
            command.env_remove(name);
        }
        for (name, value) in variables {
            command.env(name, value);
        }
        let child = pair.slave.spawn_command(command).unwrap();
        let begun = Instant::now();
        drop(pair.slave);
        let parser = vt100::Parser::new(cells(rows), cells(columns), 0);
        let seen = Arc::new((
            Mutex::new(Seen { parser, ended: false, frames: 0, raw: Vec::new(), stopped: false }),
            Condvar::new(),
        ));
        let mut reader = pair.master.try_clone_reader().unwrap();
        let writes = Arc::clone(&seen);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            loop {
                {
                    let Ok(seen) = writes.0.lock() else { break };
                    drop(writes.1.wait_while(seen, |seen| seen.stopped));
                }
                let n = reader.read(&mut bytes).unwrap_or(0);
                // Poisoned: the test has failed.
                let Ok(mut seen) = writes.0.lock() else { break };
                seen.parser.process(&bytes[..n]);
                // Every frame begins a synchronized update.
                seen.frames += bytes[..n].windows(8).filter(|w| w == b"\x1b[?2026h").count();
                seen.raw.extend_from_slice(&bytes[..n]);
                seen.ended = n == 0;
                writes.1.notify_all();
                if n == 0 {
                    break;
                }
            }
        });
        let keyboard = pair.master.take_writer().unwrap();
        Self { master: pair.master, keyboard, child, seen, begun, home }
    }

    pub fn age(&self) -> Duration {
        self.begun.elapsed()
    }

    pub fn keys(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
        self.keyboard.flush().unwrap();
    }

    pub fn resize(&mut self, columns: u16, rows: u16) {
        self.seen.0.lock().unwrap().parser.set_size(cells(rows), cells(columns));
        self.master.resize(size(columns, rows)).unwrap();
    }

    pub fn signal(&self, signal: &str) {
        let id = self.child.process_id().unwrap().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    }

    pub fn text(&self) -> String {
        self.seen.0.lock().unwrap().parser.screen().contents()
    }

    /// Read nothing of what the program writes, like a terminal whose output is stopped.
    pub fn stop_reading(&mut self) {
        self.seen.0.lock().unwrap().stopped = true;
    }

    pub fn go_on_reading(&mut self) {
        self.seen.0.lock().unwrap().stopped = false;
        self.seen.1.notify_all();
    }

    /// The screen once nothing has been written to it for a while.
    pub fn settled(&self) -> String {
        let (seen, changed) = &*self.seen;
        let mut guard = seen.lock().unwrap();
        loop {
            let waited = changed.wait_timeout(guard, Duration::from_millis(300)).unwrap();
            guard = waited.0;
            if waited.1.timed_out() {
                return guard.parser.screen().contents();
            }
        }
    }

    /// Processor time that the program has taken, in the kernel's ticks.
    #[cfg(target_os = "linux")]
    pub fn ticks(&self) -> u64 {
        let id = self.child.process_id().unwrap();
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
        let fields: Vec<_> = stat[stat.rfind(')').unwrap() + 2..].split(' ').collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    }

    /// Wait until a saved run's file is as wanted.
    pub fn until_session(&self, holds: impl Fn(&str) -> bool) {
        let begun = Instant::now();
        let read = |path: &PathBuf| std::fs::read_to_string(path).unwrap_or_default();
        while !self.sessions().iter().map(read).any(|text| holds(&text)) {
            assert!(begun.elapsed() < TOO_LONG, "no saved run is as wanted");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Clear what the emulator shows, so that only what is drawn from now on is seen.
    pub fn forget(&mut self) {
        self.seen.0.lock().unwrap().parser.process(b"\x1b[2J");
    }

    fn until(&self, what: &str, holds: impl Fn(&Seen) -> bool) {
        let (seen, changed) = &*self.seen;
        let guard = seen.lock().unwrap();
        let wait = |s: &mut Seen| !holds(s) && !s.ended;
        let (guard, _) = changed.wait_timeout_while(guard, TOO_LONG, wait).unwrap();
        assert!(holds(&guard), "{what} after {TOO_LONG:?}:\n{}", guard.parser.screen().contents());
    }

    pub fn wait(&self, words: &str) {
        self.until(&format!("no {words:?}"), |s| s.parser.screen().contents().contains(words));
    }

    /// Wait until these bytes were written, seen or not.
    pub fn wait_raw(&self, bytes: &str) {
        self.until(&format!("never {bytes:?}"), |s| contains(&s.raw, bytes));
    }

    /// True if these bytes were written.
    pub fn has_raw(&self, bytes: &str) -> bool {
        contains(&self.seen.0.lock().unwrap().raw, bytes)
    }

    /// True if no frame is drawn for so long. What is under way may come first.
    pub fn is_quiet(&self, time: Duration) -> bool {
        let frames = || self.seen.0.lock().unwrap().frames;
        let begun = Instant::now();
        while begun.elapsed() < TOO_LONG {
            let before = frames();
            std::thread::sleep(time);
            if frames() == before {
                return true;
            }
        }
        false
    }

    /// The colors of the cells that show this, each pair once.
    pub fn colors_of(&self, symbol: &str) -> HashSet<String> {
        let seen = self.seen.0.lock().unwrap();
        let screen = seen.parser.screen();
        let (rows, columns) = screen.size();
        let places = (0..rows.get()).flat_map(|row| (0..columns.get()).map(move |column| (row, column)));
        let cells = places.filter_map(|(row, column)| screen.cell(row, column));
        cells
            .filter(|c| c.contents() == symbol)
            .map(|c| format!("{:?} on {:?}", c.fgcolor(), c.bgcolor()))
            .collect()
    }

    /// Wait until the screen's line (from 0) begins with these words.
    pub fn wait_line(&self, line: usize, words: &str) {
        self.until(&format!("line {line} is not {words:?}"), |s| {
            s.parser.screen().contents().lines().nth(line).is_some_and(|l| l.starts_with(words))
        });
    }

    /// Type, and wait for these words; the time from the one to the other, taken as they are read.
    pub fn press(&mut self, keys: &str, words: &str) -> Duration {
        let begun = Instant::now();
        self.keys(keys);
        self.wait(words);
        begun.elapsed()
    }

    /// Type what ends the program, which succeeds and gives the terminal back.
    pub fn quit(&mut self, keys: &str) {
        self.keys(keys);
        assert_eq!(self.exit_code(), 0);
        self.check_restored();
    }

    /// The time in which the program draws this many frames more.
    pub fn time_of_frames(&self, n: usize) -> Duration {
        let begun = Instant::now();
        let before = self.seen.0.lock().unwrap().frames;
        self.until("too few frames", |s| s.frames >= before + n);
        begun.elapsed()
    }

    /// Wait until these words are not on the screen.
    pub fn gone(&self, words: &str) {
        self.until(&format!("still {words:?}"), |s| !s.parser.screen().contents().contains(words));
    }

    /// True while the program has the alternate screen.
    pub fn is_taken(&self) -> bool {
        self.seen.0.lock().unwrap().parser.screen().alternate_screen()
    }

    /// True if some letter in the first rows of the caption pane is bold, underlined or colored.
    pub fn caption_has_style(&self) -> bool {
        let seen = self.seen.0.lock().unwrap();
        let screen = seen.parser.screen();
        let (rows, columns) = screen.size();
        let (rows, columns) = (rows.get(), columns.get());
        let left = screen.rows(0, columns).nth(1).and_then(|line| {
            let at = line.find("Caption")?;
            Some(line[..at].chars().count() as u16)
        });
        let letters = (2..rows / 3).flat_map(|row| (left.unwrap_or(0)..columns - 2).map(move |c| (row, c)));
        letters.filter_map(|(row, column)| screen.cell(row, column)).any(|cell| {
            cell.contents().chars().any(char::is_alphabetic)
                && (cell.bold() || cell.underline() || cell.fgcolor() != vt100::Color::Default)
        })
    }

    /// Wait for the program's end.
    pub fn exit_code(&mut self) -> u32 {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                self.until("output continues", |s| s.ended);
                return status.exit_code();
            }
            assert!(begun.elapsed() < TOO_LONG, "the program does not end:\n{}", self.text());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn until_screen(&self, otherwise: &str, wished: impl Fn(&str) -> bool) {
        self.until(otherwise, |s| wished(&s.parser.screen().contents()));
    }

    /// Wait until the screen shows something else.
    pub fn until_other(&self, before: &str) {
        self.until("nothing changed", |s| s.parser.screen().contents() != before);
    }

    pub fn sessions(&self) -> Vec<PathBuf> {
        let folder = self.home.path().join(".local/share/specreel/sessions");
        let entries = std::fs::read_dir(folder).into_iter().flatten();
        entries.map(|e| e.unwrap().path()).collect()
    }

    /// Wait until the program has given the screen back.
    pub fn until_restored(&self) {
        self.until("the screen is still taken", |s| !s.parser.screen().alternate_screen());
    }

    /// The text of the one file of this ending in the working directory.
    pub fn file(&self, ending: &str) -> String {
        let files = std::fs::read_dir(self.home.path()).unwrap().map(|f| f.unwrap().path());
        let mut files = files.filter(|f| f.extension().is_some_and(|e| e == ending));
        std::fs::read_to_string(files.next().unwrap()).unwrap()
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.home.path().join(name), text).unwrap();
    }

    /// Wait until a file in the working directory is as wanted.
    pub fn until_file(&self, name: &str, holds: impl Fn(&str) -> bool) {
        let begun = Instant::now();
        let read = || std::fs::read_to_string(self.home.path().join(name)).unwrap_or_default();
        while !holds(&read()) {
            assert!(begun.elapsed() < TOO_LONG, "{name} is {:?}", read());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn log(&self) -> String {
        let file = self.home.path().join(".local/state/specreel/specreel.log");
        std::fs::read_to_string(file).unwrap()
    }

    /// Wait until the program is gone, however it ended.
    pub fn wait_end(&mut self) {
        self.child.wait().unwrap();
    }

    /// True while the program gets the mouse's words.
    pub fn has_mouse(&self) -> bool {
        self.seen.0.lock().unwrap().parser.screen().mouse_protocol_mode() != vt100::MouseProtocolMode::None
    }

    /// The normal screen, a cursor, no bracketed paste.
    pub fn check_restored(&self) {
        let seen = self.seen.0.lock().unwrap();
        let screen = seen.parser.screen();
        assert!(!screen.alternate_screen(), "the alternate screen is still there");
        assert!(!screen.hide_cursor(), "the cursor is hidden");
        assert!(!screen.bracketed_paste(), "pastes are still bracketed");
    }
}

/// A server of tmux of its own, gone with the test.
pub struct Tmux(String);

impl Tmux {
    /// None where there is no tmux.
    pub fn server(name: &str) -> Option<Self> {
        if Command::new("tmux").arg("-V").output().is_err() {
            eprintln!("there is no tmux here: nothing was tested");
            return None;
        }
        Some(Self(format!("specreel-{name}-{}", std::process::id())))
    }

    pub fn name(&self) -> &str {
        &self.0
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        Command::new("tmux").args(["-L", &self.0, "kill-server"]).output().ok();
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // A failed test must not leave its program behind.
        if let Ok(None) = self.child.try_wait() {
            self.child.kill().ok();
            self.child.wait().ok();
        }
    }
}
