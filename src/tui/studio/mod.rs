//! The studio without a terminal: messages in, effects and frames out.

mod actions;
mod back;
mod mouse;
mod tour;
mod update;

use ratatui::{buffer::Buffer, layout::Rect};

use crate::look::StudioError;
use crate::tui::effect::{Effect, Msg};
use crate::tui::widgets::{Frame, Slot};
use crate::tui::{
    ascii, config::StudioConfig, model::Model, screens::preview::PreviewScreen, view, window::Outside,
};

/// The studio's state, the same on a terminal and in tests.
pub struct Studio {
    model: Model,
}

impl Studio {
    pub fn new(config: &StudioConfig) -> Result<(Self, Vec<Effect>), StudioError> {
        let mut model = Model::new(config)?;
        update::begin(&mut model, &config.folders);
        let effects = std::mem::take(&mut model.effects);
        Ok((Self { model }, effects))
    }

    pub fn handle(&mut self, msg: Msg) -> Vec<Effect> {
        update::update(&mut self.model, msg);
        std::mem::take(&mut self.model.effects)
    }

    /// Draw the whole screen. Returns the area of a picture for a graphics protocol.
    pub(crate) fn draw(&self, buffer: &mut Buffer) -> Option<Slot> {
        let mut frame = Frame::new(buffer);
        view::draw(&self.model, self.model.theme(), &mut frame);
        let slot = frame.slot;
        if self.model.config.ascii {
            ascii::reduce(buffer);
        }
        slot
    }

    pub fn picture(&self, columns: u16, rows: u16) -> Buffer {
        let mut buffer = Buffer::empty(Rect::new(0, 0, columns, rows));
        self.draw(&mut buffer);
        buffer
    }

    pub(crate) fn outside(&self) -> Outside {
        view::outside(&self.model)
    }

    pub fn is_busy(&self) -> bool {
        self.model.is_busy()
    }

    /// True while a clock plays, which needs [`Msg::Advance`].
    pub fn is_playing(&self) -> bool {
        self.model.is_playing()
    }

    /// True while a clip is previewed, at the speed of the video.
    pub(crate) fn is_previewing(&self) -> bool {
        self.model.screens.shown::<PreviewScreen>().is_some()
    }

    /// True while a saved run is replayed.
    pub fn is_replaying(&self) -> bool {
        self.model.sessions.replay.is_some()
    }

    pub fn active_run(&self) -> Option<u64> {
        self.model.runs.active().map(|run| run.id())
    }

    pub fn caption(&self) -> String {
        self.model.runs.shown().map(|run| run.log.shown()).unwrap_or_default()
    }

    pub fn prompt(&self) -> String {
        self.model.prompt.text()
    }

    #[cfg(test)]
    pub(crate) fn model(&mut self) -> &mut Model {
        &mut self.model
    }
}

#[cfg(test)]
mod batch_tests;
#[cfg(test)]
mod box_tests;
#[cfg(test)]
mod event_tests;
#[cfg(test)]
mod first_tests;
#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod queue_tests;
#[cfg(test)]
mod segment_tests;
#[cfg(test)]
mod tests;
