//! A trained draft head: one decoder layer that drafts from its target's states (Sparrow, MSD; the architecture is EAGLE's).
//!
//! The input row of token t is z = FC([embedding of t ; the target's final state before t]) (Sparrow, eq. 1). It passes
//! through one decoder layer and a norm; the output approximates the target's final state at t, from which the target's LM
//! head reads the next token. Embeddings and LM head are the target's own, shared, not copied. While drafting, the head's own
//! outputs take the place of states that the target has not computed yet.
//!
//! Checkpoint: `config.json` ([`DraftHeadConfig`]) and `model.safetensors` with `fc.weight` (`width × 2 width`), `fc.bias`,
//! `model.layers.0.…` and `model.norm.weight` under the names of the target's checkpoint: the layer has the biases and the norms
//! of heads that the target's layers have.

mod config;
mod states;

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use candle_core::Result;

pub use config::{DraftHeadConfig, MODEL_TYPE, Recipe, TargetIdentity, VisualRows};
pub use states::TextStates;

use super::{
    checkpoint::{Checkpoint, CheckpointError},
    decoder::{Decoder, States, Workspace, with_slice},
};

/// Largest number of embeddings in a fingerprint.
const FINGERPRINT_ROWS: usize = 64;

/// A loaded draft head.
pub struct DraftHead {
    name: String,
    config: DraftHeadConfig,
    decoder: Arc<Decoder>,
    /// Buffers of the projection.
    workspace: Mutex<Workspace>,
}

impl DraftHead {
    /// Load a checkpoint directory for this target.
    ///
    /// # Errors
    /// A file is missing or damaged, or the head was trained for another target.
    pub fn load(dir: &Path, target: &Decoder) -> std::result::Result<Self, CheckpointError> {
        let config = DraftHeadConfig::read(dir)?;
        let name =
            dir.file_name().map_or_else(|| dir.display().to_string(), |n| n.to_string_lossy().into_owned());
        let loaded = TargetIdentity::of(target, "")
            .map_err(|e| CheckpointError::tensor("model.embed_tokens", &e.to_string()))?;
        if let Some(difference) = config.target.difference(&loaded) {
            let problem = format!("this draft head was trained for another target: {difference}");
            return Err(CheckpointError::file(&dir.join("config.json"), &problem));
        }
        let checkpoint = Checkpoint::open(dir)?;
        let layer = config.layer(target.config());
        let decoder = Arc::new(target.with_layer(&checkpoint, &layer)?);
        Ok(Self { name, config, decoder, workspace: Mutex::default() })
    }

    /// Display name: the directory's.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The contents of its `config.json`.
    pub fn config(&self) -> &DraftHeadConfig {
        &self.config
    }

    /// Its layer between the target's embeddings and LM head.
    pub fn decoder(&self) -> &Arc<Decoder> {
        &self.decoder
    }

    /// Input rows of tokens, `ids × width`, from the states before them (`ids × width`, flat).
    ///
    /// # Errors
    /// If an id is outside of the embeddings, or there are not as many states as ids.
    pub fn fuse(&self, ids: &[u32], before: &[f32]) -> Result<States> {
        let width = self.decoder.config().hidden;
        if before.len() != ids.len() * width {
            candle_core::bail!(
                "expected {} states of {width} values, got {} values",
                ids.len(),
                before.len()
            );
        }
        let mut workspace = self.workspace.lock().unwrap_or_else(PoisonError::into_inner);
        self.decoder.fuse(ids, &States::new(before.to_vec(), width)?, &mut workspace)
    }

    /// Bytes of the projection that makes its input rows.
    pub fn projection_bytes(&self) -> usize {
        self.decoder.projection_bytes()
    }
}

impl TargetIdentity {
    /// The identity of a loaded target.
    ///
    /// # Errors
    /// If the model has no embeddings.
    pub fn of(target: &Decoder, name: &str) -> Result<Self> {
        let config = target.config();
        Ok(Self {
            name: name.to_owned(),
            hidden_size: config.hidden,
            vocab_size: config.vocab,
            num_hidden_layers: config.layers,
            fingerprint: fingerprint(target)?,
        })
    }
}

/// FNV-1a over the bits of up to 64 embeddings, evenly spread over the table: targets with different weights differ here.
fn fingerprint(target: &Decoder) -> Result<String> {
    let vocab = target.config().vocab;
    let count = FINGERPRINT_ROWS.min(vocab);
    let ids: Vec<u32> = (0..count).map(|i| (i * vocab / count) as u32).collect();
    let hash = with_slice(&target.embed(&ids)?, |values| {
        let bytes = values.iter().flat_map(|value| value.to_bits().to_le_bytes());
        bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        })
    })?;
    Ok(format!("{hash:016x}"))
}
