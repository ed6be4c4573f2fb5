//! What a prompt needs to know of a clip.

use crate::model::processor::layout::VisualGrid;

/// A sampled clip, as prompts describe it.
#[derive(Clone, Debug, PartialEq)]
pub struct ClipFacts {
    /// Its visual tokens.
    pub grid: VisualGrid,
    /// Frames per second as sampled.
    pub sample_fps: f64,
    /// Times of the sampled frames in seconds, from the start of the part of the video that was sampled.
    pub timestamps_s: Vec<f64>,
    /// Length of that part in seconds.
    pub duration_s: f64,
}

impl ClipFacts {
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
