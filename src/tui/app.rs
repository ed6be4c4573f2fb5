//! The driver: terminal, clock and channels around the studio.

mod perform;

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};

use crossterm::event::Event as TerminalEvent;
use tokio::sync::{Notify, mpsc};

use crate::look::{ColorDepth, Key, StudioError, Theme};
use crate::tui::effect::{BatchNews, Effect, Msg};
use crate::tui::images::{self, ImageProtocol};
use crate::tui::painter::{Painted, Painter};
use crate::tui::question::{self, Late};
use crate::tui::recorder::{PATIENCE, Recorder};
use crate::tui::signals::{Signal, Signals};
use crate::tui::terminal::{Features, Screen};
use crate::tui::{
    batch_worker::BatchWorker, config::StudioConfig, files, frame_loader::FrameLoader, frames::Frames,
    keeper::Keeper, model::TICK, mouse::Mouse, studio::Studio, terminal_events::TerminalEvents,
    window::Window, worker::Workers,
};
use specreel_client::{Client, Remote, UNSEEN};
use specreel_os::threads::ask_for_short_turns;
use specreel_record::Event;

const PLAY: Duration = Duration::from_millis(34);
/// A played run moves on by at most this between two frames, however late the second one is: nobody saw what happened meanwhile.
const LATE: Duration = Duration::from_millis(68);
const ASKED: Duration = Duration::from_millis(400);
/// Events taken in before the next frame may be drawn.
const BATCH: usize = 512;
/// How long a burst of keys is taken in before the next frame may be drawn.
const BURST: Duration = Duration::from_millis(30);

/// Run the studio on the terminal until the user leaves or a signal ends it.
/// Errors: there is no terminal, it cannot be set up, or the key map or a theme is invalid: see [`StudioError`].
pub fn run(mut config: StudioConfig, client: Client) -> anyhow::Result<()> {
    if !std::io::stdout().is_terminal() {
        return Err(StudioError::NoTerminal.into());
    }
    let remembered = config.theme_file.as_deref();
    let remembered = remembered.and_then(|file| Theme::remembered(file, config.themes.as_deref()));
    config.theme = remembered.unwrap_or(config.theme);
    let seeks_theme = matches!(config.theme.as_str(), "auto" | "") && std::env::var_os("COLORFGBG").is_none();
    // Asked before keys are read, because the answers come the same way.
    let shows_pictures = config.colors != ColorDepth::None && !config.ascii;
    let in_tmux = shows_pictures && config.image_protocol == ImageProtocol::Auto && images::is_in_tmux();
    let mut answers = question::ask(ASKED, in_tmux);
    answers.around = answers.around.filter(|_| images::keeps_colors());
    if seeks_theme {
        config.theme = if answers.dark.unwrap_or(true) { "dark" } else { "light" }.into();
    }
    answers.cell = Screen::cell().or(answers.cell);
    let inside = images::is_inside();
    config.image_protocol = config.images(&answers, inside);
    // Errors in the user's files are shown on the normal screen.
    let (studio, begin) = Studio::new(&config)?;
    let (engine, events) = client.split();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let through = Arc::new(Notify::new());
    let tell = Arc::clone(&through);
    let window = Window::new(&answers.name, inside, config.notify);
    let features = Features { mouse: config.mouse, title: window.has_title, progress: window.has_progress };
    let screen = Screen::take(config.log.as_deref(), features, move || tell.notify_one())?;
    let (messages, inbox) = mpsc::channel(64);
    let (paintings, painted) = mpsc::channel(4);
    let kept = config.sessions.clone().filter(|_| config.record);
    let recorder = Recorder::start(kept.clone(), messages.clone());
    let keeper = Keeper::start(config.prompts.clone(), messages.clone(), kept, config.keep);
    let driver = Driver {
        begun: Instant::now(),
        studio,
        recorder,
        played: None,
        edit: None,
        screen,
        window,
        through,
        engine,
        frames: Frames::default(),
        painter: Painter::new(config.image_protocol, answers.cell, inside),
        paintings,
        frame_loader: FrameLoader::new(config.frames.clone()),
        late: Late::after(&answers, Instant::now()),
        workers: Workers::new(messages.clone()),
        messages,
        batch: None,
        batch_news: None,
        config,
        pull_cancelled: Arc::default(),
        listen_cancelled: Arc::default(),
        searches: Arc::default(),
        keeper,
        probing: false,
        probe_next: None,
        leaving: false,
    };
    let channels = Channels { events, engine_lives: true, inbox, painted };
    ask_for_short_turns();
    let ended = runtime.block_on(driver.run(begin, answers.keys, channels));
    // The user does not wait for workers, such as a scan of a slow disk.
    runtime.shutdown_background();
    if let Some(unsaved) = ended? {
        // The screen is the normal one again.
        writeln!(std::io::stderr(), "warning: {unsaved}").ok();
    }
    Ok(())
}

struct Channels {
    events: mpsc::Receiver<Event>,
    engine_lives: bool,
    inbox: mpsc::Receiver<Msg>,
    painted: mpsc::Receiver<Painted>,
}

struct Driver {
    begun: Instant,
    studio: Studio,
    recorder: Recorder,
    /// When the clock of a replay was last advanced.
    played: Option<Instant>,
    edit: Option<String>,
    screen: Screen,
    window: Window,
    /// Notified when the terminal has read a frame.
    through: Arc<Notify>,
    engine: Remote,
    frames: Frames,
    painter: Painter,
    paintings: mpsc::Sender<Painted>,
    frame_loader: FrameLoader,
    late: Late,
    workers: Workers,
    messages: mpsc::Sender<Msg>,
    batch: Option<BatchWorker>,
    batch_news: Option<mpsc::Receiver<Msg>>,
    config: StudioConfig,
    /// Set to cancel the download.
    pull_cancelled: Arc<AtomicBool>,
    /// Set to end the speech model's work.
    listen_cancelled: Arc<AtomicBool>,
    /// How many searches there were.
    searches: Arc<AtomicU64>,
    keeper: Keeper,
    probing: bool,
    probe_next: Option<PathBuf>,
    leaving: bool,
}

impl Driver {
    /// Returns the unsaved items.
    async fn run(
        mut self,
        begin: Vec<Effect>,
        typed: Vec<Key>,
        mut channels: Channels,
    ) -> Result<Option<String>, StudioError> {
        let (columns, rows) = self.screen.size();
        self.take_in(Msg::Resize(columns, rows))?;
        self.draw()?;
        self.perform(begin)?;
        for key in typed {
            self.take_in(Msg::Key(key))?;
            self.frames.want_now();
        }
        let mut keys = read_terminal()?;
        let mut signals = Signals::new()?;
        let mut next_tick = Instant::now() + TICK;
        while !self.leaving {
            if let Some(text) = self.edit.take() {
                // A reader of keys here would take them from the editor, and signals meant for the editor are dropped.
                drop(keys);
                self.edit(text, &mut channels).await?;
                keys = read_terminal()?;
                signals = Signals::new()?;
            }
            let now = Instant::now();
            // The next frame waits until the terminal has read the last one.
            let due = self.frames.due(now).filter(|_| self.screen.is_idle());
            if due.is_some_and(|at| at <= now) {
                self.draw()?;
                continue;
            }
            let busy = self.studio.is_busy();
            // The clock stops while nothing plays.
            self.played = self.played.filter(|_| self.studio.is_playing());
            let playing = self.studio.is_playing().then(|| *self.played.get_or_insert(now) + PLAY);
            // Nor while a frame has not been shown yet.
            let playing = playing.filter(|_| self.frames.due(now).is_none());
            tokio::select! {
                biased;
                signal = signals.next() => match signal {
                    Signal::Leave => self.leaving = true,
                    Signal::Continued => {
                        self.painter.forget();
                        self.window.forget();
                        self.screen.resume()?;
                        self.frames.want_now();
                    }
                },
                event = keys.next() => {
                    let (begun, mut next) = (Instant::now(), event);
                    // A burst of keys, such as a paste without bracketed paste, is drawn as one frame.
                    loop {
                        match next {
                            Some(Ok(event)) => self.on_terminal(event)?,
                            Some(Err(source)) => {
                                return Err(StudioError::Terminal { doing: "read from", source });
                            }
                            // The terminal is gone.
                            None => self.leaving = true,
                        }
                        if self.leaving || self.edit.is_some() || begun.elapsed() > BURST {
                            break;
                        }
                        next = match keys.waiting() {
                            Some(event) => Some(event),
                            None => break,
                        };
                    }
                }
                event = channels.events.recv(), if channels.engine_lives => {
                    self.on_engine_events(event, &mut channels)?;
                }
                Some(msg) = channels.inbox.recv() => self.on_message(msg)?,
                Some(msg) = next(&mut self.batch_news) => self.on_message(msg)?,
                Some(picture) = channels.painted.recv() => {
                    self.painter.take_in(picture);
                    self.frames.want();
                }
                () = tokio::time::sleep_until(due.unwrap_or(now).into()), if due.is_some() => {}
                () = self.through.notified() => {}
                () = tokio::time::sleep_until(playing.unwrap_or(now).into()), if playing.is_some() => {
                    let now = Instant::now();
                    let passed = self.played.replace(now).map_or(Duration::ZERO, |at| now - at);
                    let passed = if self.studio.is_previewing() { passed } else { passed.min(LATE) };
                    self.take_in(Msg::Advance(passed.as_secs_f64() * 1e3))?;
                    self.frames.want();
                }
                () = tokio::time::sleep_until(next_tick.max(now).into()), if busy => {
                    next_tick = Instant::now() + TICK;
                    self.take_in(Msg::Tick)?;
                    self.frames.want();
                }
            }
        }
        // After a signal the run still continues; the program's end need not wait for it.
        if let Some(run) = self.studio.active_run() {
            self.engine.cancel(run);
        }
        if let Some(batch) = self.batch.take() {
            batch.finish();
        }
        // The terminal may be gone, and its pictures with it.
        self.forget_pictures().ok();
        let saved = self.keeper.finish(PATIENCE);
        let unsaved =
            (!saved).then(|| "the disk does not respond: the last prompts may not be saved".to_owned());
        Ok(self.recorder.finish(PATIENCE).or(unsaved))
    }

    /// Let the user edit a text in their editor. Meanwhile events are taken in, so that the engine does not wait for the studio.
    async fn edit(&mut self, text: String, channels: &mut Channels) -> Result<(), StudioError> {
        self.forget_pictures()?;
        self.screen.release();
        let mut editor = tokio::task::spawn_blocking(move || files::edit(&text));
        let edited = loop {
            tokio::select! {
                edited = &mut editor => break edited,
                event = channels.events.recv(), if channels.engine_lives => {
                    self.on_engine_events(event, channels)?;
                }
                Some(msg) = channels.inbox.recv() => self.on_message(msg)?,
                Some(msg) = next(&mut self.batch_news) => self.on_message(msg)?,
            }
        };
        self.screen.resume()?;
        self.take_in(Msg::Edited(edited.unwrap_or_else(|panic| Err(format!("the editor failed: {panic}")))))?;
        self.frames.want_now();
        Ok(())
    }

    /// Process an event of the engine and the events waiting after it; `None` means that the engine has stopped.
    fn on_engine_events(&mut self, first: Option<Event>, channels: &mut Channels) -> Result<(), StudioError> {
        channels.engine_lives = first.is_some();
        if first.is_none() {
            if let Some(batch) = &mut self.batch {
                batch.engine_gone();
            }
            self.take_in(Msg::EngineGone)?;
        }
        let waiting = std::iter::from_fn(|| channels.events.try_recv().ok());
        for event in first.into_iter().chain(waiting).take(BATCH) {
            self.on_engine(event)?;
        }
        self.frames.want();
        Ok(())
    }

    fn on_message(&mut self, msg: Msg) -> Result<(), StudioError> {
        let late = self.frame_loader.is_late(&msg);
        match &msg {
            Msg::Probed { .. } => {
                self.probing = false;
                self.probe_waiting();
            }
            Msg::Batch(BatchNews::Ended(_)) => self.batch = None,
            Msg::FramesRead(..) => {
                self.frame_loader.ended();
                self.read_frames();
            }
            _ => {}
        }
        if !late {
            self.take_in(msg)?;
            self.frames.want();
        }
        Ok(())
    }

    fn draw(&mut self) -> Result<(), StudioError> {
        self.screen.draw(&self.studio, &mut self.painter)?;
        let said = self.window.say(self.studio.outside(), Instant::now());
        if !said.is_empty() {
            self.screen.say(&said)?;
        }
        self.frames.drawn(Instant::now());
        if let Some(job) = self.painter.job() {
            let paintings = self.paintings.clone();
            drop(tokio::task::spawn_blocking(move || paintings.blocking_send(job.run()).ok()));
        }
        Ok(())
    }

    /// Delete the pictures from the terminal, before another program uses it.
    fn forget_pictures(&mut self) -> Result<(), StudioError> {
        self.screen.say(&self.painter.farewell())?;
        self.painter.forget();
        self.window.forget();
        Ok(())
    }

    fn on_engine(&mut self, event: specreel_record::Event) -> Result<(), StudioError> {
        let unrecorded = if event.run < UNSEEN { self.recorder.event(&event) } else { None };
        if let Some(batch) = &mut self.batch {
            batch.event(&event);
        }
        let ended = event.ends_run() && event.run > 0;
        self.take_in(Msg::Engine(event))?;
        if let Some(unrecorded) = unrecorded {
            self.take_in(unrecorded)?;
        }
        if ended && !self.studio.is_replaying() {
            self.keeper.prune();
        }
        Ok(())
    }

    fn on_terminal(&mut self, event: TerminalEvent) -> Result<(), StudioError> {
        let msg = match event {
            TerminalEvent::Key(key) => match Key::from_terminal(&key) {
                Some(key) if !self.late.swallows(key, Instant::now()) => Msg::Key(key),
                _ => return Ok(()),
            },
            TerminalEvent::Paste(text) => Msg::Paste(text),
            TerminalEvent::Resize(columns, rows) => {
                self.painter.set_cell(Screen::cell());
                Msg::Resize(columns, rows)
            }
            TerminalEvent::Mouse(mouse) => match Mouse::from_terminal(&mouse, self.begun.elapsed()) {
                Some(mouse) => Msg::Mouse(mouse),
                None => return Ok(()),
            },
            TerminalEvent::FocusGained => Msg::Focus(true),
            TerminalEvent::FocusLost => Msg::Focus(false),
        };
        self.take_in(msg)?;
        self.frames.want_now();
        Ok(())
    }

    fn take_in(&mut self, msg: Msg) -> Result<(), StudioError> {
        let effects = self.studio.handle(msg);
        self.perform(effects)
    }
}

async fn next(channel: &mut Option<mpsc::Receiver<Msg>>) -> Option<Msg> {
    match channel {
        Some(channel) => channel.recv().await,
        None => None,
    }
}

fn read_terminal() -> Result<TerminalEvents, StudioError> {
    TerminalEvents::start().map_err(|source| StudioError::Terminal { doing: "read from", source })
}
