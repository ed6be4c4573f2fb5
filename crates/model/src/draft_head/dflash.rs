//! DFlash heads (arXiv:2602.06036): some layers that draft a whole block of tokens in one pass.
//!
//! The target's states after several of its layers are concatenated, projected by `fc` (`hidden × layers · hidden`, no bias) and
//! normed by `hidden_norm`. Every layer of the head computes keys and values from these context rows as they are, with its own
//! projections, at the positions of the tokens whose states they are; they stay in its cache. The block holds the embeddings of
//! the root and of mask tokens, at the positions that follow. Its rows see the context and each other, later rows as well, and
//! the row at a place predicts the token of that place: one pass drafts `block_size - 1` tokens. Embeddings and LM head are the
//! target's own.
//!
//! DFlash 2 adds two parts: short [convolutions](specreel_tensor::convolution) over the rows of a block around attention and
//! feed-forward layers, and a [selector](super::Selector) among the candidates of each place.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::{DraftHeadConfig, Selector, SelectorConfig};
use crate::{
    config::TextConfig,
    decoder::{Decoder, Mask, Matrix, States, Workspace},
};
use specreel_checkpoint::Checkpoint;
use specreel_tensor::{
    CheckpointError, Importance, Weights, convolution::ConvolutionShape, fused::FusedMatrix,
};

/// Rows of the largest block.
pub const LARGEST_BLOCK: usize = 64;

/// What only a DFlash head has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockConfig {
    /// Rows of a block: one for the root and one for each drafted token.
    pub block_size: usize,
    /// The token that holds a place of the block.
    pub mask_token_id: u32,
    /// Layers of the target after which states are read (0 = the first), in the order in which they are concatenated.
    pub target_layer_ids: Vec<usize>,
    /// What the rows of a block see in each of the head's layers.
    pub layers: Vec<BlockAttention>,
    /// Convolutions over the rows of a block (DFlash 2).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub convolution: Option<ConvolutionShape>,
    /// Chooses among the candidates of each place (DFlash 2).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<SelectorConfig>,
}

/// What the rows of a block see in a layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockAttention {
    /// Rows less than so many places away; `None` = all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<usize>,
    /// True if a row sees no later rows of its block.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub causal: bool,
}

impl BlockAttention {
    /// The mask of a block of `rows` rows after `before` context rows.
    pub fn mask(self, before: usize, rows: usize) -> Mask {
        let window = self.window.unwrap_or(usize::MAX);
        let seen = |row: usize| {
            let own = before + row;
            let end = if self.causal { own + 1 } else { before + rows };
            (own + 1).saturating_sub(window)..end.min(own.saturating_add(window))
        };
        let seen: Vec<Range<usize>> = (0..rows).map(seen).collect();
        // Where every row sees the whole context, it is not listed.
        let shared = if seen.iter().all(|slots| slots.start == 0) { before } else { 0 };
        let path = |slots: &Range<usize>| (slots.start.max(shared) - shared..slots.end - shared).collect();
        match self.causal && shared == before {
            true => Mask::Causal,
            false => Mask::Paths { shared, paths: seen.iter().map(path).collect() },
        }
    }
}

impl BlockConfig {
    /// Most tokens that a block drafts.
    pub fn most_drafts(&self) -> usize {
        self.block_size.saturating_sub(1)
    }

    /// The tokens of a block after `root`.
    pub fn ids(&self, root: u32) -> Vec<u32> {
        std::iter::once(root).chain(std::iter::repeat_n(self.mask_token_id, self.most_drafts())).collect()
    }

    /// Runs of layers with the mask of a block's rows, after `before` context rows.
    pub fn runs(&self, before: usize) -> Vec<(Range<usize>, Mask)> {
        let mut from = 0;
        let runs = self.layers.chunk_by(|a, b| a == b).map(|run| {
            let layers = from..from + run.len();
            from = layers.end;
            (layers, run[0].mask(before, self.block_size))
        });
        runs.collect()
    }

    /// Number of context rows, the last ones, that a block can see; `None` = all.
    pub fn reach(&self) -> Option<usize> {
        let windows: Option<Vec<usize>> = self.layers.iter().map(|layer| layer.window).collect();
        windows?.into_iter().max()
    }

    /// What of it cannot be, of a head whose rows have `width` values: `None` if all can.
    pub(super) fn problem(&self, width: usize) -> Option<String> {
        let size = self.block_size;
        if !(2..=LARGEST_BLOCK).contains(&size) {
            return Some(format!(
                "`block_size` is {size}, expected 2 to {LARGEST_BLOCK}: the root's row, and one for each drafted token"
            ));
        }
        if self.layers.is_empty() || self.layers.len() > 64 {
            return Some(format!("the head has {} layers, expected 1 to 64", self.layers.len()));
        }
        let narrowest = self.layers.iter().filter_map(|layer| layer.window).min();
        if let Some(window) = narrowest.filter(|window| *window < size) {
            return Some(format!("`sliding_window` is {window}, less than a block of {size}"));
        }
        if let Some(ConvolutionShape { taps, group }) = self.convolution {
            if !(1..=size).contains(&taps) {
                return Some(format!("`conv_kernel_size` is {taps}, expected 1 to the block's {size} rows"));
            }
            if group == 0 || !width.is_multiple_of(group) {
                return Some(format!(
                    "`conv_group_size` is {group}, which does not divide the width of {width}"
                ));
            }
        }
        if let Some(problem) = self.selector.and_then(SelectorConfig::problem) {
            return Some(problem);
        }
        self.target_layer_ids.is_empty().then(|| "`target_layer_ids` is empty".into())
    }
}

/// The layers of a target that are read where a description does not name them: as many as the head has, evenly from the second
/// to the third from the end; of a single one, the middle.
pub fn usual_layers(target: usize, count: usize) -> Vec<usize> {
    match count {
        0 | 1 => vec![target / 2],
        _ => {
            let (first, last) = (1.0, target.saturating_sub(3).max(1) as f64);
            let step = (last - first) / (count - 1) as f64;
            (0..count).map(|i| (first + step * i as f64).round_ties_even() as usize).collect()
        }
    }
}

/// What makes the context rows of a DFlash head, and what chooses its drafts.
pub(super) struct Blocks {
    pub taps: Vec<usize>,
    pub selector: Option<Selector>,
    reduce: Matrix,
    /// Weights of the norm of context rows.
    norm: Vec<f32>,
    eps: f32,
}

impl Blocks {
    /// Load the head's weights: the decoder of its layers, and the projection that makes its context rows.
    pub fn load(
        checkpoint: &Checkpoint,
        config: &DraftHeadConfig,
        own: &BlockConfig,
        target: &Decoder,
    ) -> Result<(Decoder, Self), CheckpointError> {
        let read = target.config();
        if let Some(layer) = own.target_layer_ids.iter().find(|layer| **layer >= read.layers) {
            let problem = format!(
                "this draft head was trained for another target: it reads states after layer {layer} (0 = the first), this \
                 target has {}",
                read.layers
            );
            return Err(CheckpointError::tensor("fc.weight", &problem));
        }
        if own.mask_token_id as usize >= read.vocab {
            let problem = format!(
                "`mask_token_id` is {}, the target's embeddings have {} rows: use the target it was trained for",
                own.mask_token_id, read.vocab
            );
            return Err(CheckpointError::tensor("model.embed_tokens", &problem));
        }
        let layers = TextConfig { layers: own.layers.len(), ..config.layer(read) };
        let decoder = target.with_inner_layers(checkpoint, &layers)?;
        let width = layers.hidden;
        let reduce = FusedMatrix {
            tensors: vec![("fc".into(), width)],
            inputs: own.target_layer_ids.len() * width,
            bias: false,
            importance: Importance::Usual,
        };
        let selector = own.selector.map(|selector| Selector::load(checkpoint, config, selector, &decoder));
        let blocks = Self {
            taps: own.target_layer_ids.clone(),
            selector: selector.transpose()?,
            reduce: target.matrix(&reduce, checkpoint)?,
            norm: checkpoint.f32("hidden_norm.weight", &[width])?,
            eps: layers.norm_eps,
        };
        Ok((decoder, blocks))
    }

    /// Bytes of the matrix that makes its context rows, and of its selector.
    pub fn bytes(&self) -> usize {
        self.reduce.bytes() + self.selector.as_ref().map_or(0, Selector::bytes)
    }

    /// Context rows, `rows × width`, from the target's states after the tapped layers, `rows × taps · width`.
    pub fn reduce(
        &self,
        decoder: &Decoder,
        states: &States,
        workspace: &mut Workspace,
    ) -> specreel_tensor::Result<States> {
        let projected = decoder.project(&self.reduce, states, workspace)?;
        decoder.normed(&projected, &self.norm, self.eps, workspace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(mask: Mask) -> (usize, Vec<Vec<usize>>) {
        match mask {
            Mask::Paths { shared, paths } => (shared, paths),
            Mask::Causal => panic!("causal"),
        }
    }

    #[test]
    fn rows_of_a_block_see_the_context_and_each_other() {
        let whole = BlockAttention::default();
        assert_eq!(paths(whole.mask(5, 3)), (5, vec![vec![0, 1, 2]; 3]));
        assert_eq!(BlockAttention { causal: true, ..whole }.mask(5, 3), Mask::Causal);
        let near = BlockAttention { window: Some(4), causal: false };
        // Row 5 sees from 2 on, row 7 from 4 on.
        assert_eq!(paths(near.mask(5, 3)), (0, vec![(2..8).collect(), (3..8).collect(), (4..8).collect()]));
        assert_eq!(paths(near.mask(1, 3)), (1, vec![vec![0, 1, 2]; 3]), "the context is within the window");
        let behind = BlockAttention { window: Some(4), causal: true };
        assert_eq!(paths(behind.mask(5, 2)), (0, vec![(2..6).collect(), (3..7).collect()]));
    }

    #[test]
    fn layers_with_one_mask_run_together() {
        let near = BlockAttention { window: Some(8), causal: false };
        let config = BlockConfig {
            block_size: 4,
            mask_token_id: 7,
            target_layer_ids: vec![1],
            layers: vec![near, near, BlockAttention::default()],
            convolution: None,
            selector: None,
        };
        let runs: Vec<_> = config.runs(20).into_iter().map(|(layers, _)| layers).collect();
        assert_eq!(runs, [0..2, 2..3]);
        assert_eq!((config.ids(3), config.reach()), (vec![3, 7, 7, 7], None));
        let all = BlockConfig { layers: vec![near; 2], ..config.clone() };
        assert_eq!((all.runs(20).len(), all.reach()), (1, Some(8)));
        assert_eq!(config.problem(96), None);
        let convolved = |taps, group| BlockConfig {
            convolution: Some(ConvolutionShape { taps, group }),
            ..config.clone()
        };
        let selected = |rank, candidates| BlockConfig {
            selector: Some(SelectorConfig { rank, candidates }),
            ..config.clone()
        };
        assert_eq!((convolved(2, 16).problem(96), selected(256, 16).problem(96)), (None, None));
        for (bad, words) in [
            (BlockConfig { block_size: 1, ..config.clone() }, "`block_size` is 1, expected 2 to 64"),
            (BlockConfig { block_size: 65, ..config.clone() }, "`block_size` is 65"),
            (BlockConfig { block_size: 9, ..all }, "`sliding_window` is 8, less than a block of 9"),
            (
                BlockConfig { block_size: 9, ..config.clone() },
                "`sliding_window` is 8, less than a block of 9",
            ),
            (BlockConfig { layers: Vec::new(), ..config.clone() }, "0 layers"),
            (convolved(5, 8), "`conv_kernel_size` is 5, expected 1 to the block's 4 rows"),
            (convolved(0, 8), "`conv_kernel_size` is 0"),
            (convolved(2, 0), "`conv_group_size` is 0"),
            (convolved(2, 7), "`conv_group_size` is 7, which does not divide the width of 96"),
            (selected(0, 16), "`selector_rank` is 0, expected 1 to 16384"),
            (selected(256, 257), "`selector_top_k` is 257, expected 1 to 256"),
            (BlockConfig { target_layer_ids: Vec::new(), ..config.clone() }, "`target_layer_ids` is empty"),
        ] {
            let problem = bad.problem(96).unwrap();
            assert!(problem.contains(words), "{problem}");
        }
    }

    /// The layers that published descriptions name.
    #[test]
    fn the_usual_layers_are_those_of_published_heads() {
        assert_eq!(usual_layers(36, 5), [1, 9, 17, 25, 33]);
        assert_eq!(usual_layers(32, 5), [1, 8, 15, 22, 29]);
        assert_eq!(usual_layers(64, 5), [1, 16, 31, 46, 61]);
        assert_eq!((usual_layers(28, 1), usual_layers(2, 2)), (vec![14], vec![1, 1]));
    }
}
