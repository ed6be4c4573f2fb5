//! Files to frames: probing, seeking, decoding and sampling through FFmpeg's libraries, in this process.

/// Which frames of a video the models look at.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Sampling {
    /// The model family's own rule.
    #[default]
    Auto,
    /// This many frames, evenly spaced.
    Frames(usize),
    /// This many frames per second of video.
    Fps(f64),
}
