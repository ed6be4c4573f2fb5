//! What a prompt needs to know of a clip.

use crate::processor::{ProcessorError, VisualGrid};

/// A sampled clip, as prompts describe it.
#[derive(Clone, Debug, PartialEq)]
pub struct ClipFacts {
    /// The clip's visual tokens.
    pub grid: VisualGrid,
    /// Frames per second as sampled.
    pub sample_fps: f64,
    /// Times of the sampled frames in seconds, from the start of the part of the video that was sampled.
    pub timestamps_s: Vec<f64>,
    /// Length of that part in seconds.
    pub duration_s: f64,
}

impl ClipFacts {
    /// The times of each temporal grid's first and last frame. The last frame is repeated until its grid is full.
    pub(crate) fn times_of_grids(&self, frames_per_grid: usize) -> impl Iterator<Item = (f64, f64)> + '_ {
        let last = self.timestamps_s.len().saturating_sub(1);
        let at = move |frame: usize| self.timestamps_s.get(frame.min(last)).copied().unwrap_or_default();
        (0..self.grid.t).map(move |t| (at(t * frames_per_grid), at((t + 1) * frames_per_grid - 1)))
    }

    /// Check that the times can be written.
    /// Errors: [`ProcessorError::Times`] if one of them is not a number of seconds from 0.
    pub(super) fn check(&self) -> Result<(), ProcessorError> {
        // Far above the length of any video.
        let usable = |seconds: &f64| (0.0..=1e12).contains(seconds);
        match self.timestamps_s.iter().chain([&self.duration_s]).find(|seconds| !usable(seconds)) {
            Some(seconds) => Err(ProcessorError::Times { seconds: *seconds }),
            None => Ok(()),
        }
    }

    /// A clip that consists of `frames` frames, all of them sampled, at a constant rate.
    pub fn steady(grid: VisualGrid, frames: usize, fps: f64) -> Self {
        Self {
            grid,
            sample_fps: fps,
            timestamps_s: (0..frames).map(|frame| frame as f64 / fps).collect(),
            duration_s: frames as f64 / fps,
        }
    }
}
