//! The studio's state. Changed only by the screens and by [`super::update`], read only by the views.

pub(crate) mod batch;
pub(crate) mod caption;
pub(crate) mod compare;
pub(crate) mod edit;
pub(crate) mod frame_strips;
pub(crate) mod inspect;
pub(crate) mod library;
pub(crate) mod methods;
pub(crate) mod models;
pub(crate) mod notify;
pub(crate) mod order;
mod playing;
pub(crate) mod preview;
pub(crate) mod prompt;
pub(crate) mod queue;
pub(crate) mod replay;
pub(crate) mod run;
pub(crate) mod sampling;
pub(crate) mod search;
pub(crate) mod sessions;
pub(crate) mod stack;
pub(crate) mod steps;
pub(crate) mod timeline;
pub(crate) mod tour;

use std::time::Duration;

use crate::look::{Action, KeyContext, Keymap, StudioError, Theme};
use crate::tui::{
    config::StudioConfig, effect::Effect, images::ImageProtocol, mouse::Mouse, pane::Pane, question::Answers,
    text,
};
use batch::Batches;
use caption::CaptionPane;
use library::Library;
use methods::Methods;
pub(crate) use models::EngineState;
use models::Models;
use notify::Notices;
use prompt::PromptEditor;
use queue::Queue;
use run::Runs;
pub(crate) use run::{Activity, Run, Subject};
use sampling::SamplingChoice;
use sessions::Sessions;
use specreel_demo as assets;
use specreel_record::Ready;
use stack::Stack;
pub(crate) use stack::{Keys, Screen, Turn};
use tour::Tour;

/// While the engine works, a [`Msg::Tick`](super::Msg::Tick) comes so often.
pub(crate) const TICK: Duration = Duration::from_millis(120);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Info,
    Bad,
}

/// What was pressed or clicked before.
#[derive(Debug)]
pub(crate) struct Input {
    /// The last click, if it selected a row: another one at once runs it.
    pub clicked: Option<Mouse>,
    /// The action of the last key, if it must be pressed twice.
    pub asked: Option<Action>,
    /// The pane that had the focus before the prompt.
    pub before_prompt: Pane,
}

/// How the screen looks.
#[derive(Debug)]
pub(crate) struct Look {
    pub themes: Vec<Theme>,
    pub theme: usize,
    pub images: ImageProtocol,
    /// The clock of what moves while the engine works.
    pub tick: usize,
}

pub(crate) struct Model {
    pub size: (u16, u16),
    pub focus: Pane,
    pub screens: Stack,
    pub library: Library,
    pub prompt: PromptEditor,
    pub methods: Methods,
    /// Of the next runs.
    pub sampling: SamplingChoice,
    pub models: Models,
    pub runs: Runs,
    pub queue: Queue,
    pub batches: Batches,
    pub sessions: Sessions,
    pub caption: CaptionPane,
    pub notices: Notices,
    pub input: Input,
    pub look: Look,
    pub keymap: Keymap,
    pub config: StudioConfig,
    /// What is to be done outside, in this order, once the message is taken in.
    pub effects: Vec<Effect>,
}

impl Model {
    pub fn new(config: &StudioConfig) -> Result<Self, StudioError> {
        let keymap = Keymap::with_file(config.keymap.as_deref())?;
        let (themes, mut wrong) = Theme::readable(config.themes.as_deref(), config.colors)?;
        if let Some(at) = wrong.iter().position(|(name, _)| *name == config.theme) {
            return Err(wrong.swap_remove(at).1);
        }
        let theme = Theme::position(&themes, &config.theme)?;
        let named =
            config.folder.as_ref().map(|dir| std::path::absolute(dir).unwrap_or_else(|_| dir.clone()));
        let mut library = Library { named, segment_length: "30".into(), ..Library::default() };
        for clip in &config.clips {
            library.add_clip(&clip.title, &clip.path);
        }
        let notice = config.notice.clone().or_else(|| wrong.first().map(|(_, error)| error.to_string()));
        // Only the embedded models know the first clip.
        let guided = config.is_first && config.embedded && config.server.is_none() && config.video.is_none();
        let shown = notice.map(|words| (Tone::Bad, text::clean_line(&words)));
        Ok(Self {
            size: (0, 0),
            focus: Pane::Library,
            screens: Stack::default(),
            library,
            prompt: PromptEditor::new(&config.request.prompt),
            methods: Methods::new(config.methods.clone(), &config.method),
            sampling: SamplingChoice::of(&config.request, &config.sampling_presets),
            models: Models { loaded: config.loaded.clone(), ..Models::default() },
            runs: Runs { next: 1, ..Runs::default() },
            queue: Queue::default(),
            batches: Batches::new(config.sidecar, config.existing, config.cues),
            sessions: Sessions { folder: config.sessions.clone(), ..Sessions::default() },
            caption: CaptionPane { tour: guided.then(Tour::start), ..CaptionPane::default() },
            notices: Notices { shown, ..Notices::default() },
            input: Input { clicked: None, asked: None, before_prompt: Pane::Library },
            look: Look { themes, theme, images: config.images(&Answers::default(), false), tick: 0 },
            keymap,
            config: config.clone(),
            effects: Vec::new(),
        })
    }

    /// Where keys are looked up.
    pub fn key_context(&self) -> KeyContext {
        match (self.screens.top(), self.focus) {
            (Some(screen), _) => screen.keys(self).context,
            (None, Pane::Caption) if self.caption.inspector.is_some() => KeyContext::Inspector,
            (None, Pane::Library) => KeyContext::Library,
            (None, Pane::Prompt) => KeyContext::Prompt,
            (None, Pane::Steps) => KeyContext::Steps,
            (None, Pane::Caption | Pane::Meters) if self.shows_player() => KeyContext::Player,
            (None, Pane::Caption | Pane::Meters) => KeyContext::Reading,
        }
    }

    /// The rows by which a list is paged.
    pub fn page(&self) -> usize {
        usize::from(self.size.1 / 2).max(1)
    }

    /// True if runs can start at once.
    pub fn is_ready(&self) -> bool {
        matches!(self.models.engine, EngineState::Ready(_))
    }

    /// Why a method cannot run with the loaded models, and how to supply the missing part; `None` if it can, or they still load.
    pub fn unavailable(&self, method: usize) -> Option<String> {
        let EngineState::Ready(Ready { target, parts: Some(parts), .. }) = &self.models.engine else {
            return None;
        };
        let failure = self.methods.turned.get(method)?.check_parts(parts, target).err()?;
        Some(format!("{}: {}", failure.error, failure.hint.unwrap_or_default()))
    }

    /// True while a run, a batch or a verification is active or waits; not for runs of a server, which are not this studio's.
    pub fn is_running(&self) -> bool {
        let works = self.batches.active().is_some() || self.runs.active().is_some();
        let is_own = self.config.server.is_none();
        is_own && (works || self.queue.waits() || self.runs.proof.is_some())
    }

    /// True if the embedded models caption, or would caption, a clip that is not one of their own: its caption says nothing.
    pub fn is_out_of_depth(&self) -> bool {
        let noted = |run: &Run| run.log.notes().iter().any(|note| note == assets::LIMITS_NOTE);
        let is_foreign = self.library.selected().is_some_and(|entry| entry.kind != library::Kind::Clip);
        self.runs.shown().is_some_and(noted) || (self.config.embedded && is_foreign)
    }

    /// True if going back from the panes cancels the run.
    pub fn back_cancels(&self) -> bool {
        let nothing_else = match self.focus {
            Pane::Prompt => false,
            _ if self.caption.inspector.is_some() => false,
            Pane::Library => self.library.filter.is_empty() && self.library.marked.is_empty(),
            Pane::Caption => self.caption.search.query.is_empty(),
            Pane::Steps => self.shown_step().is_none(),
            Pane::Meters => true,
        };
        nothing_else && self.screens.is_empty() && self.is_running() && self.shown_replay().is_none()
    }

    pub fn is_busy(&self) -> bool {
        let is_loading =
            matches!(self.models.engine, EngineState::Loading { .. }) || self.models.is_changing();
        is_loading || self.batches.has_engine() || self.runs.active().is_some() || self.runs.proof.is_some()
    }

    pub fn has_pictures(&self) -> bool {
        self.config.frames.is_some() && self.look.images != ImageProtocol::None
    }

    pub fn theme(&self) -> &Theme {
        &self.look.themes[self.look.theme]
    }

    /// Have something done outside.
    pub fn emit(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    pub fn note(&mut self, tone: Tone, words: impl AsRef<str>) {
        self.notices.shown = Some((tone, text::clean_line(words.as_ref())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panes_cycle() {
        assert_eq!(Pane::Library.next(-1), Pane::Meters);
        assert_eq!(Pane::Meters.next(1), Pane::Library);
    }
}
