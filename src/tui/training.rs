//! The progress of a training run as a picture in the studio's look, for a terminal without the studio.

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
        let mut picture = Buffer::empty(Rect::new(0, 0, columns, TRAINING_SIZE.1 - 1));
        view::training::draw(self, look.ascii, &look.theme, &mut view::Frame::new(&mut picture));
        if look.ascii {
            ascii::reduce(&mut picture);
        }
        picture
    }
}
