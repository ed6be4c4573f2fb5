//! What distinguishes the towers, and the tower of a checkpoint.

use std::{fmt::Debug, sync::Arc};

use super::parts::TowerParts;
use crate::{
    mac_count::TowerMacCount,
    processor::{Grid, ProcessorConfig},
};
use specreel_tensor::tower::{Tap, TowerLayout};

/// What is returned of the patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TowerOutput {
    Embeddings,
    /// The states before the projector, in the order of the patches.
    States,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TowerSizes {
    /// Width of an embedding, which is the language model's.
    pub out: usize,
    /// Values of a patch.
    pub row: usize,
    /// Width of the states.
    pub hidden: usize,
    /// Attention heads, which divide the width.
    pub heads: usize,
    /// Width of the feed-forward layers.
    pub ffn: usize,
    pub layers: usize,
}

/// Patches of frames of any size, of which squares are merged to one visual token.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MergedPatches {
    /// Side of a patch in pixels.
    pub patch: usize,
    /// Frames in one patch.
    pub temporal: usize,
    /// Side of a square in patches.
    pub merge: usize,
}

/// A tower's dimensions and tensors, and how its patches are laid out. Each family has its own in its folder.
pub(crate) trait TowerRules: Debug + Send + Sync {
    /// Default settings of the frame processor.
    fn processor(&self) -> ProcessorConfig;

    /// How patches are cut, of a tower that merges squares of them.
    fn merged(&self) -> Option<MergedPatches> {
        None
    }

    /// Let the processor cut frames as the tower takes them, where no file of the processor says how.
    fn cut(&self, frames: &mut ProcessorConfig) {
        if let Some(MergedPatches { patch, temporal, merge }) = self.merged() {
            (frames.patch, frames.temporal, frames.merge) = (patch, temporal, merge);
        }
    }

    /// What the frame processor must agree with: name, the tower's value, the processor's.
    fn pairs(&self, frames: &ProcessorConfig) -> Vec<(&'static str, usize, usize)> {
        let pairs = |own: MergedPatches| {
            vec![
                ("patch size", own.patch, frames.patch),
                ("merge size", own.merge, frames.merge),
                ("temporal patch size", own.temporal, frames.temporal),
            ]
        };
        self.merged().map(pairs).unwrap_or_default()
    }

    fn sizes(&self) -> TowerSizes;

    /// Number of embeddings of a visual token, side by side in its row.
    fn embeddings(&self) -> usize {
        1
    }

    /// Positions per second of video, if M-RoPE's time axis counts seconds.
    fn tokens_per_second(&self) -> Option<f32> {
        None
    }

    fn parts(&self) -> TowerParts;

    /// What is wrong with a grid of patches.
    fn mismatch(&self, grid: Grid) -> Option<String> {
        let merge = self.merged()?.merge;
        let whole = grid.h.is_multiple_of(merge) && grid.w.is_multiple_of(merge);
        (!whole).then(|| format!("rows and columns must be multiples of {merge}"))
    }

    /// For each row of states of a temporal grid, the rows of the table of positions that are added to it, as
    /// [`TowerOps::interpolate`] takes them; `None` if row `r` is added to row `r`.
    ///
    /// [`TowerOps::interpolate`]: specreel_tensor::ops::TowerOps::interpolate
    fn positions(&self, _: Grid) -> Option<Vec<Vec<Tap>>> {
        None
    }

    /// The layout of a grid without mismatch. In a tower with a layer that joins states, it ends with the means of the joined
    /// states.
    fn layout(&self, grid: Grid, output: TowerOutput) -> TowerLayout;

    /// The layout of the joined states, in a tower with a layer that joins states.
    fn merged_layout(&self, _: Grid, _: TowerOutput) -> Option<TowerLayout> {
        None
    }

    /// The multiply-adds of a grid.
    fn mac_count(&self, grid: Grid) -> TowerMacCount;
}

#[derive(Clone, Debug)]
pub struct TowerConfig(Arc<dyn TowerRules>);

impl<T: TowerRules + 'static> From<T> for TowerConfig {
    fn from(rules: T) -> Self {
        Self(Arc::new(rules))
    }
}

impl TowerConfig {
    pub(crate) fn rules(&self) -> &dyn TowerRules {
        &*self.0
    }

    /// The multiply-adds of the tower on a grid of patches.
    pub fn mac_count(&self, grid: Grid) -> TowerMacCount {
        self.0.mac_count(grid)
    }

    /// Settings of a frame processor that cuts frames as the tower takes them, where no file says more.
    pub fn frames(&self) -> ProcessorConfig {
        let mut settings = self.0.processor();
        self.0.cut(&mut settings);
        settings
    }

    /// Check that the tower matches the frame processor and a language model of this width.
    pub fn fits(&self, frames: &ProcessorConfig, width: usize) -> Result<(), String> {
        let mut pairs = vec![("output width", self.0.sizes().out, width)];
        pairs.extend(self.0.pairs(frames));
        match pairs.into_iter().find(|(_, tower, other)| tower != other) {
            None => Ok(()),
            Some((what, tower, other)) => {
                Err(format!("the vision tower has {what} {tower}, expected {other}"))
            }
        }
    }

    /// Values of a patch.
    pub fn row(&self) -> usize {
        self.0.sizes().row
    }

    /// Layers, among them one that joins states.
    pub fn layers(&self) -> usize {
        self.0.parts().layers.len()
    }

    /// Values of a visual token's row: its embeddings, concatenated.
    pub fn width(&self) -> usize {
        self.0.sizes().out * self.0.embeddings()
    }

    pub fn head_dim(&self) -> usize {
        let TowerSizes { hidden, heads, .. } = self.0.sizes();
        hidden / heads
    }

    /// Layers, width and feed-forward width, such as `32x1280x3420`.
    pub fn sizes(&self) -> String {
        let TowerSizes { layers, hidden, ffn, .. } = self.0.sizes();
        format!("{layers}x{hidden}x{ffn}")
    }
}
