//! The screens: each file holds a box's state, its keys, what they do, and how it is drawn.
//!
//! A new screen is a file here, and an action that opens it (`studio::actions`).

pub(crate) mod ask;
pub(crate) mod batch;
pub(crate) mod caption_editor;
pub(crate) mod compare;
pub(crate) mod compare_picker;
pub(crate) mod export;
pub(crate) mod filter;
pub(crate) mod find;
pub(crate) mod help;
pub(crate) mod history;
pub(crate) mod method_editor;
mod method_list;
pub(crate) mod methods;
pub(crate) mod models;
pub(crate) mod open;
pub(crate) mod presets;
pub(crate) mod preview;
pub(crate) mod sampling;
pub(crate) mod save_method;
pub(crate) mod search;
pub(crate) mod segments;
pub(crate) mod sessions;
pub(crate) mod speech;
pub(crate) mod themes;
pub(crate) mod timeline;
mod tower;
pub(crate) mod value;
