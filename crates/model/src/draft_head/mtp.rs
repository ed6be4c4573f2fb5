//! A target's own layer for multi-token prediction (DeepSeek-V3), as Qwen3.5's checkpoints hold it below `mtp.`.
//!
//! The row of token t is z = fc([norm(embedding of t) ; norm(the target's final state before t)]), after the target's last norm.
//! One layer with full attention follows, of the form of the target's own, and a norm; the output takes the place of states that
//! the target has not computed yet. Embeddings and LM head are the target's. It was trained for the token after t alone;
//! further ones are drafted from its own outputs.
//!
//! A row has the position of the row whose state it reads, the one before it. Visual tokens are rows like text.

use super::{
    TargetIdentity,
    config::{DraftHeadConfig, Recipe, VisualRows},
    eagle3::Pairs,
};
use crate::{
    config::{Sparse, TextConfig},
    decoder::{Decoder, parts},
};
use specreel_checkpoint::Checkpoint;
use specreel_tensor::{CheckpointError, Importance, Weights, fused::FusedMatrix};

/// Where its tensors are in a checkpoint.
const PART: &str = "mtp";
/// Projects embeddings and states, `hidden × 2 hidden`.
const PROJECTION: &str = "fc";
/// Embeddings of its own, which some models have.
const EMBEDDINGS: &str = "model.embed_tokens.weight";
/// An LM head of its own.
const HEAD: &str = "lm_head.weight";
/// A tensor of a second layer.
const SECOND: &str = "model.layers.1.input_layernorm.weight";

/// True if a checkpoint has such a layer.
pub fn is_in(checkpoint: &Checkpoint) -> bool {
    checkpoint.contains(&format!("{PART}.{PROJECTION}.weight"))
}

/// True for the name of one of its tensors in a checkpoint.
pub fn is_of(name: &str) -> bool {
    let name = name.strip_prefix("model.").unwrap_or(name);
    name.strip_prefix(PART).is_some_and(|rest| rest.starts_with('.'))
}

pub(super) fn config(target: &Decoder, name: &str) -> specreel_tensor::Result<DraftHeadConfig> {
    let identity = TargetIdentity::of(target, name)?;
    Ok(DraftHeadConfig::like(target.config(), identity, Recipe::Mtp, VisualRows::Embeddings))
}

fn layer(target: &TextConfig) -> TextConfig {
    let sparse = target.sparse.clone().map(|sparse| Sparse { every: 1, dense: Vec::new(), ..sparse });
    TextConfig { layers: 1, linear: None, sparse, deepstack: 0, gemma: None, assists: None, ..target.clone() }
}

/// Parameters of such a layer of a target: of its one layer and norm, its projection, and the two norms before that.
pub(crate) fn parameters(target: &TextConfig) -> u64 {
    let own = TextConfig { vocab: 0, ..layer(target) };
    let values = |shape: &[usize]| shape.iter().product::<usize>();
    let layer: usize = parts::tensors(&own).iter().map(|(_, shape)| values(shape)).sum();
    (layer + 2 * target.hidden * target.hidden + 2 * target.hidden) as u64
}

/// Load the layer of a target's checkpoint, and the projection that makes its rows.
pub(super) fn load(checkpoint: Checkpoint, target: &Decoder) -> Result<(Decoder, Pairs), CheckpointError> {
    let checkpoint = checkpoint.part(PART);
    for (name, what) in
        [(EMBEDDINGS, "embeddings of its own"), (HEAD, "an LM head of its own"), (SECOND, "two layers")]
    {
        if checkpoint.contains(name) {
            let problem = format!("multi-token prediction with {what} is not supported");
            return Err(CheckpointError::tensor(PART, &problem));
        }
    }
    let layer = layer(target.config());
    let width = layer.hidden;
    let projection = FusedMatrix {
        tensors: vec![(PROJECTION.into(), width)],
        inputs: 2 * width,
        bias: false,
        importance: Importance::Usual,
    };
    let norm = |name: &str| {
        let mut weight = checkpoint.f32(&format!("pre_fc_norm_{name}.weight"), &[width])?;
        if layer.norm_offset {
            weight.iter_mut().for_each(|value| *value += 1.0);
        }
        Ok::<_, CheckpointError>(weight)
    };
    let own = Pairs {
        projection: target.matrix(&projection, &checkpoint)?,
        norms: [norm("embedding")?, norm("hidden")?],
        eps: layer.norm_eps,
    };
    Ok((target.with_inner_layers(&checkpoint, &layer)?, own))
}
