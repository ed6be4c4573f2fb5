//! The screens over the panes: boxes and input lines, of which the top one has the focus.
//!
//! A screen holds its own state, and says which keys it has, what they do and how it is drawn. What several screens need is
//! in the [`Model`], which a screen may change while it acts; it is not on the stack meanwhile.

use std::{any::Any, fmt::Debug, path::PathBuf};

use super::Model;
use crate::look::{Action, Key, KeyContext, Theme};
use crate::tui::line::{InputLine, PathLine};
use crate::tui::picker::{Move, Picker};
use crate::tui::{config::FrameRequest, pane::Pane, text, widgets::Frame};

/// A longer pasted text is no path.
pub(crate) const MAX_PATH_BYTES: usize = 4096;

/// The keys of a screen.
pub(crate) struct Keys {
    /// Where they are looked up.
    pub context: KeyContext,
    /// What choosing is called.
    pub verb: &'static str,
    /// The actions whose keys the last line names, the most useful first.
    pub hints: &'static [Action],
}

impl Keys {
    pub const fn new(context: KeyContext, verb: &'static str, hints: &'static [Action]) -> Self {
        Self { context, verb, hints }
    }

    /// Of a line that is typed.
    pub const fn line(verb: &'static str) -> Self {
        Self::new(KeyContext::Entry, verb, &[Action::Choose, Action::Back, Action::ClearLine])
    }

    /// Of a path that is typed.
    pub const fn path(verb: &'static str) -> Self {
        let hints = &[Action::Choose, Action::Complete, Action::Back, Action::ClearLine];
        Self::new(KeyContext::Entry, verb, hints)
    }

    /// Of a short list.
    pub const fn list(verb: &'static str) -> Self {
        Self::new(KeyContext::List, verb, &[Action::Choose, Action::Back])
    }
}

pub(crate) trait Screen: Any + Debug {
    fn keys(&self, model: &Model) -> Keys;

    /// What another action than choosing is called here, if not by its usual word.
    fn word(&self, _action: Action, _model: &Model) -> Option<&'static str> {
        None
    }

    /// Accept what is selected or typed.
    fn choose(&mut self, _model: &mut Model) -> Turn {
        Turn::Leave
    }

    /// Do an action. One that passes is done as without the screen, but choosing goes to [`choose`](Self::choose), moves go to
    /// [`go`](Self::go), a line is cleared or completed, and going back leaves the screen.
    fn act(&mut self, _action: Action, _model: &mut Model) -> Turn {
        Turn::Pass
    }

    /// Draw it over the panes; a line on the border of a pane is drawn with the pane.
    fn draw(&self, _model: &Model, _theme: &Theme, _frame: &mut Frame<'_>) {}

    /// Its list with a filter, if it has one.
    fn picker(&mut self) -> Option<&mut Picker> {
        None
    }

    /// The cursor of its list, or the first line that is shown.
    fn cursor(&mut self) -> Option<&mut usize> {
        self.picker().map(|picker| &mut picker.cursor)
    }

    /// How many rows its list has now.
    fn rows(&self, _model: &Model) -> usize {
        0
    }

    /// Move the cursor of its list.
    fn go(&mut self, go: Move, model: &mut Model) {
        let n = self.rows(model);
        if let Some(cursor) = self.cursor() {
            *cursor = go.apply(*cursor, n, model.page());
        }
    }

    /// What a click on a row does besides going there.
    fn on_click(&self) -> Option<Action> {
        None
    }

    /// The line that is typed, if there is one.
    fn line(&mut self) -> Option<&mut InputLine> {
        if self.path().is_some() {
            return self.path().map(|path| &mut path.line);
        }
        self.picker().map(|picker| &mut picker.line)
    }

    /// The typed line has changed.
    fn typed(&mut self, _model: &mut Model) {
        if let Some(cursor) = self.cursor() {
            *cursor = 0;
        }
        if let Some(path) = self.path() {
            path.found.clear();
        }
    }

    /// True if `/`, which starts a search elsewhere, starts another one here.
    fn restarts_search(&self) -> bool {
        false
    }

    /// Take in a key that stands for no action.
    fn key(&mut self, key: Key, model: &mut Model) {
        let restarts = self.restarts_search() && key.typed() == Some('/');
        let is_changed = match self.line() {
            Some(line) if restarts => !std::mem::take(line).text.is_empty(),
            Some(line) => line.press(key),
            None => false,
        };
        if is_changed {
            self.typed(model);
        }
    }

    /// Take in a pasted text; false if nothing can be pasted here.
    fn paste(&mut self, pasted: &str, model: &mut Model) -> bool {
        let Some(line) = self.line() else { return false };
        if line.insert(text::clean_line(text::prefix(pasted, MAX_PATH_BYTES)).trim()) {
            self.typed(model);
        }
        true
    }

    /// Its path that is typed, to be completed.
    fn path(&mut self) -> Option<&mut PathLine> {
        None
    }

    /// The pane on whose border it is, with its line; a box has none.
    fn border(&self) -> Option<(Pane, &InputLine)> {
        None
    }

    /// The title and the path of the clip that it is about.
    fn clip(&self, model: &Model) -> Option<(String, PathBuf)> {
        model.library.selected().map(|entry| (entry.title.clone(), entry.path.clone()))
    }

    /// The frames that it shows.
    fn frames(&self, _model: &Model) -> Option<FrameRequest> {
        None
    }

    fn is_playing(&self, _model: &Model) -> bool {
        false
    }

    /// Advance what it plays. True if nothing else is played meanwhile.
    fn advance(&mut self, _ms: f64, _model: &mut Model) -> bool {
        false
    }
}

/// What becomes of a screen after an action.
#[derive(Debug)]
pub(crate) enum Turn {
    /// It stays; the action is not its own.
    Pass,
    Stay,
    /// It closes; the one below it is on top again, if there is one.
    Leave,
    /// Another screen opens in the place of all.
    Open(Box<dyn Screen>),
    /// Another screen opens over it.
    Over(Box<dyn Screen>),
}

impl Turn {
    pub fn open(screen: impl Screen) -> Self {
        Self::Open(Box::new(screen))
    }

    pub fn over(screen: impl Screen) -> Self {
        Self::Over(Box::new(screen))
    }
}

#[derive(Debug, Default)]
pub(crate) struct Stack(Vec<Box<dyn Screen>>);

impl Stack {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn top(&self) -> Option<&dyn Screen> {
        self.0.last().map(|screen| &**screen)
    }

    /// The screen on top, if it is one of these.
    pub fn shown<S: Screen>(&self) -> Option<&S> {
        let top: &dyn Any = self.top()?;
        top.downcast_ref()
    }

    pub fn shown_mut<S: Screen>(&mut self) -> Option<&mut S> {
        let top: &mut dyn Any = &mut **self.0.last_mut()?;
        top.downcast_mut()
    }

    /// Open a screen in the place of all others.
    pub fn open(&mut self, screen: impl Screen) {
        self.close();
        self.push(screen);
    }

    /// Open a screen over the others.
    pub fn push(&mut self, screen: impl Screen) {
        self.0.push(Box::new(screen));
    }

    /// Leave the screen on top.
    pub fn pop(&mut self) {
        self.0.pop();
    }

    pub fn close(&mut self) {
        self.0.clear();
    }

    /// The line that is typed on the border of a pane.
    pub fn typed_on(&self, pane: Pane) -> Option<&InputLine> {
        self.top()?.border().filter(|(on, _)| *on == pane).map(|(_, line)| line)
    }

    /// True if a box is over the panes, not only an input line on the border of one.
    pub fn covers(&self) -> bool {
        self.top().is_some_and(|top| top.border().is_none())
    }
}

impl Model {
    /// Let the screen on top work on the rest of the model; `None` if no screen is open.
    pub fn with_top<T>(&mut self, work: impl FnOnce(&mut dyn Screen, &mut Model) -> T) -> Option<T> {
        let mut top = self.screens.0.pop()?;
        let result = work(&mut *top, self);
        self.screens.0.push(top);
        Some(result)
    }

    /// Let the screen on top do an action; false if it passes, or no screen is open.
    pub fn act_on_top(&mut self, action: Action) -> bool {
        let Some(mut top) = self.screens.0.pop() else { return false };
        let turn = match top.act(action, self) {
            Turn::Pass if action == Action::Choose => top.choose(self),
            turn => turn,
        };
        match turn {
            Turn::Pass => {
                self.screens.0.push(top);
                return false;
            }
            Turn::Stay => self.screens.0.push(top),
            Turn::Leave => {}
            Turn::Open(screen) => self.screens.0 = vec![screen],
            Turn::Over(screen) => self.screens.0.extend([top, screen]),
        }
        true
    }
}
