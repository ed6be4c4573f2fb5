//! How the studio looks and which keys it has: themes, key maps and colors. The command line lists and checks the user's files of them.

pub(crate) mod action;
mod color_depth;
pub(crate) mod error;
pub(crate) mod key;
pub(crate) mod keymap;
pub(crate) mod theme;

pub use action::Action;
pub use color_depth::{ColorDepth, no_color};
pub use error::StudioError;
pub use key::{Key, KeyCode};
pub use keymap::{DEFAULT_KEYMAP, KeyContext, Keymap};
pub use theme::{Role, Theme};
