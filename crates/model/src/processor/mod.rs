//! Frames to pixel patches, and the layout of their visual tokens.
//!
//! [`VideoProcessor`] reads its settings from the checkpoint and computes target sizes; a [`PatchBuilder`] takes one frame at a
//! time, so that full-resolution frames are never kept; [`layout`] places the visual tokens in video, prompt and position
//! space. No tensors, no model.

pub mod config;
pub mod layout;
mod limit;
pub mod patches;
mod resize;
mod sizes;

use std::path::PathBuf;

pub use config::{PixelScope, ProcessorConfig, SamplingSettings};
pub use layout::{Cell, Grid, PromptPositions, VisualGrid, VisualRope, positions, seconds_per_grid};
pub use limit::{FrameLimits, FramePlan};
pub use patches::{PatchBuilder, Patches};
pub use resize::Filter;
pub use sizes::FrameSize;

use specreel_record::{Failure, FailureClass};
use specreel_tensor::SpansError;

/// An error between frames and visual tokens.
#[derive(Debug, thiserror::Error)]
pub enum ProcessorError {
    #[error("cannot read {path}: {source}")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{path}: invalid processor configuration: {source}")]
    Parse { path: PathBuf, source: serde_json::Error },
    #[error("invalid video processor setting {name} = {value}: {reason}")]
    Config { name: &'static str, value: String, reason: &'static str },
    #[error("unsupported frame size {width}x{height}: {reason}")]
    Size { height: usize, width: usize, reason: String },
    #[error("{limit} pixels per frame are too few: one visual token has {least}")]
    Limit { limit: usize, least: usize },
    /// A pixel limit below the model's fixed frame size.
    #[error("this model resizes all frames to {height}x{width} pixels, which exceeds the limit of {limit}")]
    Fixed { limit: usize, height: usize, width: usize },
    /// A limit of visual tokens below one temporal grid of the smallest frames.
    #[error(
        "{limit} visual tokens are too few for this video: it needs at least {least} ({frames} frames of {width}x{height})"
    )]
    Tokens {
        limit: usize,
        least: usize,
        frames: usize,
        /// Height of the smallest frame in pixels.
        height: usize,
        /// Width of the smallest frame in pixels.
        width: usize,
    },
    #[error("a frame of {width}x{height} pixels has {found} bytes, expected {expected}")]
    Frame {
        height: usize,
        width: usize,
        /// Expected bytes.
        expected: usize,
        /// Bytes in the buffer.
        found: usize,
    },
    #[error("the video has no frames")]
    NoFrames,
    /// A patch grid that is not a multiple of the merge size.
    #[error("a grid of {t}x{h}x{w} patches does not divide into cells of {merge}x{merge}")]
    Grid { t: usize, h: usize, w: usize, merge: usize },
    #[error("the video has impossible time stamps ({seconds} s)")]
    Times {
        /// In seconds.
        seconds: f64,
    },
    /// The wrong number of video placeholders in a prompt.
    #[error("the prompt contains the video token ({pad}) {found} times, expected {expected}")]
    VideoSpans { found: usize, expected: usize, pad: u32 },
    #[error("the video has no visual tokens")]
    NoVisualTokens,
    /// Visual tokens outside of the prompt.
    #[error(transparent)]
    Spans(#[from] SpansError),
    #[error("cannot compute the positions of the visual tokens: {reason}")]
    Positions { reason: String },
}

impl From<ProcessorError> for Failure {
    fn from(error: ProcessorError) -> Self {
        use ProcessorError as E;
        let (class, hint) = match &error {
            E::Read { .. } | E::Parse { .. } | E::Config { .. } => {
                (FailureClass::Input, Some("download the checkpoint's files again, or choose another model"))
            }
            E::Size { .. } | E::NoFrames | E::Times { .. } => {
                (FailureClass::Input, Some("choose another video"))
            }
            E::Limit { .. } => (FailureClass::Usage, Some("raise --max-pixels")),
            E::Fixed { .. } => {
                (FailureClass::Usage, Some("omit --max-pixels; to save time, use fewer frames (--frames)"))
            }
            E::Tokens { least, .. } => {
                let hint = Some(format!("raise --max-visual-tokens to {least} or more"));
                return Failure { class: FailureClass::Usage, error: error.to_string(), hint };
            }
            E::Positions { .. } => (FailureClass::Input, Some("sample fewer frames (--frames)")),
            E::VideoSpans { .. } => {
                (FailureClass::Input, Some("the checkpoint's chat template does not support one video"))
            }
            E::Frame { .. } | E::Grid { .. } | E::NoVisualTokens | E::Spans(_) => {
                (FailureClass::Internal, None)
            }
        };
        Failure { class, error: error.to_string(), hint: hint.map(Into::into) }
    }
}

/// Turns frames into a checkpoint's input patches.
#[derive(Clone, Debug)]
pub struct VideoProcessor {
    config: ProcessorConfig,
}

impl VideoProcessor {
    /// A processor with the settings of the checkpoint in `dir`, and the defaults of `family`.
    pub fn load(dir: &std::path::Path, family: ProcessorConfig) -> Result<Self, ProcessorError> {
        Ok(Self { config: family.load(dir)? })
    }

    /// A processor with these settings. Fails with [`ProcessorError::Config`] for an invalid setting.
    pub fn new(config: ProcessorConfig) -> Result<Self, ProcessorError> {
        config.validate()?;
        Ok(Self { config })
    }

    pub fn config(&self) -> &ProcessorConfig {
        &self.config
    }

    /// The visual tokens of a grid of patches. [`ProcessorError::Grid`] if the patches do not divide into cells, or there are
    /// none.
    pub fn visual_grid(&self, patches: Grid) -> Result<VisualGrid, ProcessorError> {
        Ok(VisualGrid::from_patches(patches, self.config.merge)?.pooled(self.config.pool))
    }

    /// A builder for frames that are resized to `target`, a result of [`Self::target_size`].
    /// [`ProcessorError::Size`] unless both sides are positive multiples of patch · merge. (A fixed size must be at least one.)
    pub fn patches(&self, target: FrameSize) -> Result<PatchBuilder, ProcessorError> {
        PatchBuilder::new(self.config.clone(), target)
    }
}
