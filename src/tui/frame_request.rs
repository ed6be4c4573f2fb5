//! Which frames of a clip are read to be shown.

use std::path::PathBuf;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameRequest {
    pub path: PathBuf,
    /// How many frames; a single one is from shortly after the beginning.
    pub count: usize,
    pub max: (u32, u32),
}
