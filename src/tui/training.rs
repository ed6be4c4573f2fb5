//! The picture of a training, in the studio's look, for a terminal on which no studio runs.

use ratatui::{Terminal, backend::TestBackend, buffer::Buffer};

use super::{StudioError, Theme, ascii, model, view};
use crate::{chart::Curve, tui::ColorDepth};

/// Least columns and rows of the terminal.
pub const TRAINING_SIZE: (u16, u16) = (56, 20);

/// What the picture of a training shows; all of it is words and numbers that somebody else has.
#[derive(Clone, Debug, Default)]
pub struct TrainingPicture {
    /// What is trained, and for which target.
    pub title: String,
    /// What goes on.
    pub doing: String,
    /// Share of the way, 0 to 1.
    pub share: f64,
    /// Time to the end in words.
    pub left: String,
    /// Numbers with their names.
    pub facts: Vec<(String, String)>,
    /// How it went so far.
    pub curve: Curve,
    /// Which keys do what.
    pub foot: String,
}

/// How pictures look on this terminal.
#[derive(Clone, Debug)]
pub struct Look {
    theme: Theme,
    ascii: bool,
}

impl Look {
    /// The theme of this name, `auto` being dark or light by the terminal's word (`COLORFGBG`), with the user's own themes
    /// known; ASCII alone if so wanted.
    ///
    /// # Errors
    /// There is no such theme, or a theme file is wrong.
    pub fn new(
        theme: &str,
        folder: Option<&std::path::Path>,
        depth: ColorDepth,
        ascii: bool,
    ) -> Result<Self, StudioError> {
        let mut themes = Theme::all(folder, depth)?;
        let at = model::theme_at(&themes, theme)?;
        Ok(Self { theme: themes.swap_remove(at), ascii })
    }
}

impl TrainingPicture {
    /// The picture, this many columns wide.
    pub fn draw(&self, look: &Look, columns: u16) -> Buffer {
        let backend = TestBackend::new(columns, TRAINING_SIZE.1 - 1);
        let drawn = Terminal::new(backend).and_then(|mut terminal| {
            let done = terminal.draw(|frame| view::training::draw(self, &look.theme, frame))?;
            Ok(done.buffer.clone())
        });
        let mut picture = match drawn {
            Ok(picture) => picture,
            Err(never) => match never {},
        };
        if look.ascii {
            ascii::reduce(&mut picture);
        }
        picture
    }
}
