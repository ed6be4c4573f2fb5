//! Where captions go besides files.

use super::{rows::Caption, *};

/// Keeps the captions of clips.
pub trait Store: Send {
    /// The directory of records about clips, and of locks.
    fn state(&self) -> PathBuf;

    /// Which of these prompts have no caption of a clip, as it is now, by their places. Fails if that cannot be read.
    fn lacks(&mut self, clip: &Clip, prompts: &[String]) -> Result<Vec<usize>, Failure>;

    /// Keep the captions of a clip, all or none of them. Fails if they cannot be written.
    fn write(&mut self, clip: &Clip, captions: &[Caption]) -> Result<(), Failure>;
}
