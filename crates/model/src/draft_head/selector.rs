//! The candidate selector of a DFlash 2 head.
//!
//! A block's places are predicted independently. The selector makes a chain of them: among the likeliest tokens of a place, it
//! prefers those that go with the token drafted before. With the logit `u` of a candidate `c`, the state `h` of the place's row,
//! and the token `p` before it, the candidate's score is
//!
//! ```text
//! u[c] + Σ_r P[p][r] · (G h)[r] · S[c][r]
//! ```
//!
//! with `P` (`predecessor_codebook`) and `S` (`successor_codebook`), both `vocab × rank`, and `G` (`hidden_projection`,
//! `rank × hidden`). The drafter's distribution after `p` is the softmax of the candidates' scores.

use serde::{Deserialize, Serialize};

use super::DraftHeadConfig;
use crate::decoder::{Decoder, Matrix, States, Workspace};
use specreel_checkpoint::Checkpoint;
use specreel_tensor::{CheckpointError, HostTable, Importance, Result, fused::FusedMatrix};

/// Most candidates of a place.
const MOST_CANDIDATES: usize = 256;

/// The sizes of a selector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SelectorConfig {
    /// Values of a token in each of the two codebooks.
    pub rank: usize,
    /// Tokens of a place among which it chooses.
    pub candidates: usize,
}

impl SelectorConfig {
    /// What of it cannot be: `None` if all can.
    pub(super) fn problem(self) -> Option<String> {
        let sizes =
            [("selector_rank", self.rank, 1 << 14), ("selector_top_k", self.candidates, MOST_CANDIDATES)];
        let (key, value, most) = sizes.into_iter().find(|(_, value, most)| *value == 0 || value > most)?;
        Some(format!("`{key}` is {value}, expected 1 to {most}"))
    }
}

/// A selector's weights. The codebooks, of which a few rows are read, are in host memory.
pub struct Selector {
    config: SelectorConfig,
    predecessors: HostTable,
    successors: HostTable,
    projection: Matrix,
}

impl Selector {
    pub(super) fn load(
        checkpoint: &Checkpoint,
        head: &DraftHeadConfig,
        config: SelectorConfig,
        decoder: &Decoder,
    ) -> std::result::Result<Self, CheckpointError> {
        let (vocab, rank) = (head.target.vocab_size, config.rank);
        let codebook =
            |name: &str| HostTable::load(&format!("candidate_selector.{name}"), [vocab, rank], checkpoint);
        let projection = FusedMatrix {
            tensors: vec![("candidate_selector.hidden_projection".into(), rank)],
            inputs: decoder.width(),
            bias: false,
            importance: Importance::Usual,
        };
        Ok(Self {
            config,
            predecessors: codebook("predecessor_codebook")?,
            successors: codebook("successor_codebook")?,
            projection: decoder.matrix(&projection, checkpoint)?,
        })
    }

    /// Number of the likeliest tokens of a place among which it chooses.
    pub fn candidates(&self) -> usize {
        self.config.candidates
    }

    /// Bytes of its weights.
    pub(super) fn bytes(&self) -> usize {
        self.predecessors.bytes() + self.successors.bytes() + self.projection.bytes()
    }

    /// `G h` of states, `rows × rank`. Fails if the states have another width.
    pub fn project(&self, decoder: &Decoder, states: &States, workspace: &mut Workspace) -> Result<Vec<f32>> {
        decoder.project(&self.projection, states, workspace)?.to_vec()
    }

    /// The scores of a place's candidates, given as ids with their logits, or with their logarithmic probabilities, which changes all
    /// scores of a place alike. `before` is the token drafted before them, `projected` the place's row of
    /// [`project`](Self::project). Fails if an id is outside of the codebooks.
    pub fn scores(&self, before: u32, projected: &[f32], candidates: &[(u32, f32)]) -> Result<Vec<f32>> {
        let rank = self.config.rank;
        let row = |table: &HostTable, id: u32, row: &mut Vec<f32>| {
            row.clear();
            match table.row(id, row) {
                true => Ok(()),
                false => specreel_tensor::bail!("token id {id} is outside of the selector's codebooks"),
            }
        };
        let (mut gate, mut successor) = (Vec::with_capacity(rank), Vec::with_capacity(rank));
        row(&self.predecessors, before, &mut gate)?;
        gate.iter_mut().zip(projected).for_each(|(gate, projected)| *gate *= projected);
        let score = |&(id, logit): &(u32, f32)| {
            row(&self.successors, id, &mut successor)?;
            Ok(logit + gate.iter().zip(&successor).map(|(gate, value)| gate * value).sum::<f32>())
        };
        candidates.iter().map(score).collect()
    }
}
