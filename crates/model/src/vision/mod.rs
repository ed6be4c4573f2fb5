//! Vision towers: patches to visual embeddings.
//!
//! Patches pass layers of attention and feed-forward layers, and are merged or projected to visual embeddings: one forward pass
//! for all towers, over the operations of a device. A family's tower is described in its folder, as an implementation of
//! `TowerRules`. A tower encodes the patches of a whole video in chunks of bounded size; it does not depend on prompts or text
//! positions.

mod chunks;
mod layers;
mod on_device;
pub mod parts;
pub(crate) mod places;
mod rules;
pub mod siglip;
mod tower;
pub(crate) mod values;

use specreel_tensor::CheckpointError;
use std::ops::ControlFlow;

pub use rules::TowerConfig;
pub(super) use rules::{MergedPatches, TowerOutput, TowerRules, TowerSizes};
pub use siglip::SiglipConfig;
pub use tower::Tower;

/// Called after each layer of each chunk with (steps done, steps in total). `Break` cancels the encoding.
pub(crate) type EncodeProgress<'a> = dyn FnMut(usize, usize) -> ControlFlow<()> + 'a;

#[derive(Debug, thiserror::Error)]
pub enum VisionError {
    /// A value of `vision_config` is missing or invalid.
    #[error("config.json: vision_config.{name} {problem}")]
    Config { name: &'static str, problem: String },
    /// A value outside of `vision_config` is missing or not supported.
    #[error("config.json: {name} {problem}")]
    Setting { name: &'static str, problem: String },
    /// `vision_config` cannot be parsed.
    #[error("config.json: invalid vision_config: {0}")]
    Parse(#[from] serde_json::Error),
    /// Weights are missing, have the wrong shape, or are not finite.
    #[error("cannot load the vision tower: {0}")]
    Weights(CheckpointError),
    /// Patches that do not match the tower or their grid.
    #[error(
        "the vision tower cannot encode {rows} patches of {values} values as a grid of {t}x{h}x{w}: {reason}"
    )]
    Patches {
        rows: usize,
        values: usize,
        /// Temporal grids.
        t: usize,
        /// Rows of patches.
        h: usize,
        /// Columns of patches.
        w: usize,
        reason: String,
    },
    #[error("the vision tower failed: {0}")]
    Compute(#[from] specreel_tensor::Error),
    #[error("cancelled while encoding frames")]
    Cancelled,
}
