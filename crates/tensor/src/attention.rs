//! The inputs and the measurements of attention, on any device.

use crate::VisualSpans;

/// The slots that each new row sees.
#[derive(Clone, Debug, PartialEq)]
pub enum Mask {
    /// Each row sees every slot before it and itself.
    Causal,
    /// Rows of a tree.
    Paths {
        /// Every row sees the slots before this one.
        shared: usize,
        /// The other slots that row `r` sees, counted from `shared`, ascending, its own among them: in a tree the path from the root
        /// to its node, on which nodes of earlier passes may be. Rows of a block that is drafted at once also see later rows of
        /// their pass.
        paths: Vec<Vec<usize>>,
    },
}

impl Mask {
    /// Number of rows of this mask; `None` for a causal mask, which fits any number.
    pub fn rows(&self) -> Option<usize> {
        match self {
            Mask::Causal => None,
            Mask::Paths { paths, .. } => Some(paths.len()),
        }
    }
}

/// A measurement of attention weights during a pass.
#[derive(Clone, Debug, PartialEq)]
pub struct AttentionProbe {
    /// The measured slots: the visual tokens'.
    pub spans: VisualSpans,
    /// Also sum the weights by layer and key head.
    pub by_head: bool,
}

/// Attention weights on the measured slots; the weights of one row and head over all slots sum to 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AttentionStats {
    /// For each row, the largest weight on one measured slot, averaged over layers and heads.
    pub peaks: Vec<f32>,
    /// `layers × kv_heads × slots`: weights summed over the rows and the heads of the group.
    pub by_head: Vec<f32>,
}

/// The shape of a layer's attention.
#[derive(Clone, Copy, Debug)]
pub struct AttentionShape {
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; they divide `heads`.
    pub kv_heads: usize,
    pub head_dim: usize,
}
