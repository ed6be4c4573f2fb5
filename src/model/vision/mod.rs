//! Vision towers: patches to visual embeddings.
//!
//! One file per tower. A tower is given the patches of a whole video and works through them in bounded portions; it knows
//! nothing of prompts or positions in the text.

pub mod config;
pub mod llava;
mod parts;
pub mod qwen_vit;
pub mod siglip;
mod tower;
mod windows;

use std::ops::ControlFlow;

pub use config::{Generation, RawVisionConfig, VisionConfig};
pub use llava::{LlavaConfig, LlavaVision};
pub use qwen_vit::QwenVit;
pub use siglip::SiglipConfig;
pub use tower::{Tower, TowerConfig};

use super::{family::Family, plain};
use crate::record::{Failure, FailureClass};

/// Who is told after each block of each portion: steps done and steps in all; `Break` cancels.
pub type Progress<'a> = dyn FnMut(usize, usize) -> ControlFlow<()> + 'a;

/// What can go wrong in a vision tower.
#[derive(Debug, thiserror::Error)]
pub enum VisionError {
    /// A value of `vision_config` is missing or makes no sense.
    #[error("config.json: vision_config.{name} {problem}")]
    Config {
        /// The value's name.
        name: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// A value beside `vision_config` asks for something that is not known.
    #[error("config.json: {name} {problem}")]
    Setting {
        /// The value's name.
        name: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// `vision_config` has another form than expected.
    #[error("config.json: vision_config cannot be read: {0}")]
    Parse(#[from] serde_json::Error),
    /// Weights are missing, have the wrong shape, or are no numbers.
    #[error("the vision tower's weights cannot be used: {}", plain(.0))]
    Weights(candle_core::Error),
    /// Patches that do not fit the tower or their own grid.
    #[error(
        "the vision tower cannot take {rows} patches of {values} values as a grid of {t}x{h}x{w}: {reason}"
    )]
    Patches {
        /// Rows given.
        rows: usize,
        /// Values in a row.
        values: usize,
        /// Temporal grids announced.
        t: usize,
        /// Rows of patches announced.
        h: usize,
        /// Columns of patches announced.
        w: usize,
        /// What does not fit.
        reason: String,
    },
    /// The computation failed.
    #[error("the vision tower failed: {}", plain(.0))]
    Compute(#[from] candle_core::Error),
    /// Somebody cancelled.
    #[error("cancelled while encoding frames")]
    Cancelled,
}

impl From<VisionError> for Failure {
    fn from(error: VisionError) -> Self {
        use VisionError as E;
        let (class, hint) = match &error {
            E::Config { .. } | E::Setting { .. } | E::Parse(_) => {
                let known = Family::ALL.map(Family::name).join(", ");
                (
                    FailureClass::Input,
                    Some(format!("choose a checkpoint with the tower of its family: {known}")),
                )
            }
            E::Weights(_) => (
                FailureClass::Input,
                Some(
                    "fetch the checkpoint again; its files are damaged or do not belong together".to_owned(),
                ),
            ),
            E::Patches { .. } | E::Cancelled => (FailureClass::Internal, None),
            E::Compute(_) => {
                (FailureClass::Internal, Some("try fewer frames or smaller --max-pixels".to_owned()))
            }
        };
        Failure { class, error: error.to_string(), hint }
    }
}
