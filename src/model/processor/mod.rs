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

use std::path::PathBuf;

pub use config::ProcessorConfig;
pub use layout::{Cell, Grid, PromptPositions, VisualGrid, VisualRope, positions, seconds_per_grid};
pub use limit::{FrameLimits, FramePlan};
pub use patches::{PatchBuilder, Patches};

use crate::{
    model::spans::SpansError,
    record::{Failure, FailureClass},
};

/// An error between frames and visual tokens.
#[derive(Debug, thiserror::Error)]
pub enum ProcessorError {
    /// A configuration file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A configuration file is invalid.
    #[error("{path}: invalid processor configuration: {source}")]
    Parse {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: serde_json::Error,
    },
    /// An invalid setting.
    #[error("invalid video processor setting {name} = {value}: {reason}")]
    Config {
        /// Its name in the file.
        name: &'static str,
        /// Its value.
        value: String,
        /// The rule that it breaks.
        reason: &'static str,
    },
    /// An unusable frame size.
    #[error("unsupported frame size {width}x{height}: {reason}")]
    Size {
        /// Height in pixels.
        height: usize,
        /// Width in pixels.
        width: usize,
        /// The cause.
        reason: String,
    },
    /// A pixel limit below one visual token.
    #[error("{limit} pixels per frame are too few: one visual token has {least}")]
    Limit {
        /// The limit given.
        limit: usize,
        /// The minimum.
        least: usize,
    },
    /// A pixel limit below the model's fixed frame size.
    #[error("this model resizes all frames to {height}x{width} pixels, which exceeds the limit of {limit}")]
    Fixed {
        /// The limit given.
        limit: usize,
        /// Height in pixels.
        height: usize,
        /// Width in pixels.
        width: usize,
    },
    /// A limit of visual tokens below one temporal grid of the smallest frames.
    #[error(
        "{limit} visual tokens are too few for this video: it needs at least {least} ({frames} frames of {width}x{height})"
    )]
    Tokens {
        /// The limit given.
        limit: usize,
        /// The minimum.
        least: usize,
        /// Frames of a temporal grid.
        frames: usize,
        /// Height of the smallest frame in pixels.
        height: usize,
        /// Width of the smallest frame in pixels.
        width: usize,
    },
    /// A frame buffer of the wrong size.
    #[error("a frame of {width}x{height} pixels has {found} bytes, expected {expected}")]
    Frame {
        /// Height in pixels.
        height: usize,
        /// Width in pixels.
        width: usize,
        /// Expected bytes.
        expected: usize,
        /// Bytes in the buffer.
        found: usize,
    },
    /// No frame was pushed.
    #[error("the video has no frames")]
    NoFrames,
    /// A patch grid that is not a multiple of the merge size.
    #[error("a grid of {t}x{h}x{w} patches does not divide into cells of {merge}x{merge}")]
    Grid {
        /// Temporal grids.
        t: usize,
        /// Rows.
        h: usize,
        /// Columns.
        w: usize,
        /// Side of a cell in patches.
        merge: usize,
    },
    /// The wrong number of video placeholders in a prompt.
    #[error("the prompt contains the video token ({pad}) {found} times, expected {expected}")]
    VideoSpans {
        /// Number of placeholders.
        found: usize,
        /// Expected number.
        expected: usize,
        /// The placeholder's id.
        pad: u32,
    },
    /// A video without visual tokens.
    #[error("the video has no visual tokens")]
    NoVisualTokens,
    /// Visual tokens outside of the prompt.
    #[error(transparent)]
    Spans(#[from] SpansError),
    /// Positions that cannot be computed.
    #[error("cannot compute the positions of the visual tokens: {reason}")]
    Positions {
        /// The cause.
        reason: String,
    },
}

impl From<ProcessorError> for Failure {
    fn from(error: ProcessorError) -> Self {
        use ProcessorError as E;
        let (class, hint) = match &error {
            E::Read { .. } | E::Parse { .. } | E::Config { .. } => {
                (FailureClass::Input, Some("download the checkpoint's files again, or choose another model"))
            }
            E::Size { .. } | E::NoFrames => (FailureClass::Input, Some("choose another video")),
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
    ///
    /// # Errors
    /// As of [`ProcessorConfig::load`].
    pub fn load(dir: &std::path::Path, family: ProcessorConfig) -> Result<Self, ProcessorError> {
        Ok(Self { config: family.load(dir)? })
    }

    /// A processor with these settings.
    ///
    /// # Errors
    /// [`ProcessorError::Config`] for an invalid setting.
    pub fn new(config: ProcessorConfig) -> Result<Self, ProcessorError> {
        config.validate()?;
        Ok(Self { config })
    }

    /// The settings.
    pub fn config(&self) -> &ProcessorConfig {
        &self.config
    }

    /// The size (height, width) in pixels to which frames of `height` × `width` are resized if `n_frames` are sampled.
    ///
    /// Both sides are multiples of patch · merge, with nearly the same aspect ratio and a number of pixels within the
    /// checkpoint's limits. `max_pixels` replaces the upper limit, and the lower one if that is higher. Models with a fixed
    /// frame size always use that size.
    ///
    /// # Errors
    /// [`ProcessorError::Size`] for an empty frame or an aspect ratio above 200; [`ProcessorError::Limit`] if `max_pixels` is
    /// less than one visual token, [`ProcessorError::Fixed`] if it is less than the fixed size.
    pub fn target_size(
        &self,
        height: usize,
        width: usize,
        n_frames: usize,
        max_pixels: Option<usize>,
    ) -> Result<(usize, usize), ProcessorError> {
        if let Some((to_height, to_width)) = self.config.fixed {
            if height == 0 || width == 0 {
                return Err(ProcessorError::Size { height, width, reason: "a side is zero".into() });
            }
            return match max_pixels.filter(|limit| *limit < to_height * to_width) {
                Some(limit) => Err(ProcessorError::Fixed { limit, height: to_height, width: to_width }),
                None => Ok((to_height, to_width)),
            };
        }
        let factor = self.config.patch * self.config.merge;
        if let Some(limit) = max_pixels.filter(|limit| *limit < factor * factor) {
            return Err(ProcessorError::Limit { limit, least: factor * factor });
        }
        let (min, max) = self.bounds(n_frames, max_pixels);
        smart_resize(height, width, factor, min, max)
    }

    /// Minimum and maximum pixels of a frame if `n_frames` are sampled.
    fn bounds(&self, n_frames: usize, max_pixels: Option<usize>) -> (usize, f64) {
        match max_pixels {
            Some(limit) => (self.config.min_pixels.min(limit), limit as f64),
            None => (self.config.min_pixels, self.config.max_pixels_for(n_frames)),
        }
    }

    /// The visual tokens of a grid of patches.
    ///
    /// # Errors
    /// [`ProcessorError::Grid`] if the patches do not divide into cells, or there are none.
    pub fn visual_grid(&self, patches: Grid) -> Result<VisualGrid, ProcessorError> {
        Ok(VisualGrid::from_patches(patches, self.config.merge)?.pooled(self.config.pool))
    }

    /// A builder for frames that are resized to `target` (height, width), a result of [`Self::target_size`].
    ///
    /// # Errors
    /// [`ProcessorError::Size`] unless both sides are positive multiples of patch · merge. (A fixed size must be at least one.)
    pub fn patches(&self, target: (usize, usize)) -> Result<PatchBuilder, ProcessorError> {
        PatchBuilder::new(self.config.clone(), target)
    }
}

/// Sides that are multiples of `factor`, with nearly the same aspect ratio and an area within the limits.
///
/// The arithmetic of transformers' function of this name, with Python's rounding (halves to even).
fn smart_resize(
    height: usize,
    width: usize,
    factor: usize,
    min_pixels: usize,
    max_pixels: f64,
) -> Result<(usize, usize), ProcessorError> {
    let refuse = |reason: String| Err(ProcessorError::Size { height, width, reason });
    if height == 0 || width == 0 {
        return refuse("a side is zero".into());
    }
    if height.max(width) > 1 << 20 {
        return refuse("a side is longer than a million pixels".into());
    }
    let (h, w, f) = (height as f64, width as f64, factor as f64);
    let ratio = h.max(w) / h.min(w);
    if ratio > 200.0 {
        return refuse(format!("the aspect ratio is {ratio:.0}, the maximum is 200"));
    }
    let sides = [h, w].map(|side| (side / f).round_ties_even() * f);
    let area = sides[0] * sides[1];
    let sides = if area > max_pixels {
        let beta = (h * w / max_pixels).sqrt();
        [h, w].map(|side| ((side / beta / f).floor() * f).max(f))
    } else if area < min_pixels as f64 {
        let beta = (min_pixels as f64 / (h * w)).sqrt();
        [h, w].map(|side| (side * beta / f).ceil() * f)
    } else {
        sides
    };
    // With a lower limit of zero, a side may round down to zero.
    Ok((sides[0].max(f) as usize, sides[1].max(f) as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_round_to_even_and_limits_hold() {
        // 42 / 28 = 1.5 -> 2, 70 / 28 = 2.5 -> 2
        assert_eq!(smart_resize(42, 70, 28, 0, 1e9).unwrap(), (56, 56));
        assert_eq!(smart_resize(100, 100, 28, 0, 784.0).unwrap(), (28, 28));
        assert_eq!(smart_resize(28, 28, 28, 784 * 4, 1e9).unwrap(), (56, 56));
        assert_eq!(smart_resize(1, 150, 28, 0, 1e9).unwrap(), (28, 140));
    }

    #[test]
    fn empty_sizes_and_extreme_aspect_ratios_are_refused() {
        for (h, w) in [(0, 10), (10, 0), (1, 201), (402, 2), (usize::MAX, usize::MAX)] {
            assert!(matches!(smart_resize(h, w, 28, 784, 1e6), Err(ProcessorError::Size { .. })), "{h}x{w}");
        }
        assert!(smart_resize(1, 200, 28, 784, 1e6).is_ok());
    }

    #[test]
    fn a_given_limit_replaces_both_limits() {
        let processor = VideoProcessor::new(ProcessorConfig::default()).unwrap();
        assert_eq!(processor.target_size(280, 280, 8, Some(28 * 28 * 4)).unwrap(), (56, 56));
        assert!(matches!(
            processor.target_size(280, 280, 8, Some(783)),
            Err(ProcessorError::Limit { limit: 783, least: 784 })
        ));
    }

    #[test]
    fn a_fixed_size_stays_fixed() {
        let processor = VideoProcessor::new(ProcessorConfig::pictures(384, 14, 2)).unwrap();
        for (height, width) in [(1, 1), (1080, 1920), (5000, 3)] {
            assert_eq!(processor.target_size(height, width, 32, None).unwrap(), (384, 384));
        }
        assert_eq!(processor.target_size(9, 9, 1, Some(384 * 384)).unwrap(), (384, 384));
        let refused = processor.target_size(9, 9, 1, Some(384 * 384 - 1)).unwrap_err();
        assert!(refused.to_string().contains("384x384"), "{refused}");
        assert!(processor.target_size(0, 9, 1, None).is_err());
        let grid = processor.visual_grid(Grid { t: 2, h: 27, w: 27 }).unwrap();
        assert_eq!((grid.t, grid.h, grid.w, grid.len()), (2, 14, 14, 392));
    }
}
