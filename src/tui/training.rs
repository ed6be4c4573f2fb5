//! The progress of a training run as a picture in the studio's look, for a terminal without the studio.

use ratatui::backend::TestBackend;

use super::*;
use crate::tui::ColorDepth;
use specreel_client::chart::Curve;

/// Minimum columns and rows of the terminal.
pub const TRAINING_SIZE: (u16, u16) = (56, 20);

#[derive(Clone, Debug, Default)]
pub struct TrainingPicture {
    pub title: String,
    pub doing: String,
    pub share: f64,
    pub left: String,
    pub facts: Vec<(String, String)>,
    pub curve: Curve,
    pub foot: String,
}

/// The theme and the character set of pictures on this terminal.
#[derive(Clone, Debug)]
pub struct Look {
    theme: Theme,
    ascii: bool,
}

impl Look {
    /// The theme of this name, built-in or from `folder`; `auto` is dark or light by `COLORFGBG`. With `ascii`, only ASCII
    /// characters are drawn.
    /// Errors: there is no such theme, or a theme file is invalid.
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
            let done = terminal.draw(|frame| view::training::draw(self, look.ascii, &look.theme, frame))?;
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
