//! The studio without a terminal: messages in, effects and pictures out.

use ratatui::{Frame, Terminal, backend::TestBackend, buffer::Buffer};

use super::{Effect, Msg, StudioConfig, StudioError, ascii, model::Model, update, view};

/// The studio's state. The same object stands behind the terminal and in tests.
#[derive(Clone, Debug)]
pub struct Studio {
    model: Model,
}

impl Studio {
    /// A studio at its beginning, and what it wants done first.
    ///
    /// # Errors
    /// The key map or a theme file is wrong, or there is no theme of the name asked for.
    pub fn new(config: &StudioConfig) -> Result<(Self, Vec<Effect>), StudioError> {
        let mut model = Model::new(config)?;
        let effects = update::begin(&mut model, &config.folders);
        Ok((Self { model }, effects))
    }

    /// Take in one message; what is to be done outside comes back.
    pub fn handle(&mut self, msg: Msg) -> Vec<Effect> {
        update::update(&mut self.model, msg)
    }

    /// Draw the whole screen.
    pub fn draw(&self, frame: &mut Frame<'_>) {
        self.draw_with_slot(frame);
    }

    /// Draw the whole screen; the place of a picture that a terminal may draw better comes back.
    pub(crate) fn draw_with_slot(&self, frame: &mut Frame<'_>) -> Option<view::Slot> {
        let slot = view::draw(&self.model, self.model.theme(), frame);
        if self.model.ascii {
            ascii::reduce(frame.buffer_mut());
        }
        slot
    }

    /// The screen at this size, in columns and rows.
    pub fn picture(&self, columns: u16, rows: u16) -> Buffer {
        let backend = TestBackend::new(columns, rows);
        let mut terminal = match Terminal::new(backend) {
            Ok(terminal) => terminal,
            Err(never) => match never {},
        };
        match terminal.draw(|frame| self.draw(frame)) {
            Ok(done) => done.buffer.clone(),
            Err(never) => match never {},
        }
    }

    /// True while something goes on: loading or a run.
    pub fn is_busy(&self) -> bool {
        self.model.is_busy()
    }

    /// True while a replay plays: it wants to hear of the time by [`Msg::Advance`].
    pub fn is_playing(&self) -> bool {
        self.model.is_playing()
    }

    /// True while a saved session is shown once more.
    pub fn is_replaying(&self) -> bool {
        self.model.replay.is_some()
    }

    /// The run that goes on.
    pub fn active_run(&self) -> Option<u64> {
        self.model.runs.active().map(|run| run.id())
    }

    /// The caption that is shown, as far as it is written.
    pub fn caption(&self) -> String {
        self.model.runs.shown().map(|run| run.log.shown()).unwrap_or_default()
    }

    /// The prompt as it stands.
    pub fn prompt(&self) -> String {
        self.model.prompt.text()
    }

    #[cfg(test)]
    pub(crate) fn model(&mut self) -> &mut Model {
        &mut self.model
    }
}
