//! A trained draft head: one decoder layer that drafts from its target's states (Sparrow, MSD; the architecture is EAGLE's).
//! EAGLE-3 heads have a layout of their own: see [`eagle3`]. So have DFlash heads, of several layers: see [`dflash`]. A target's own
//! layer for multi-token prediction is also one: see [`mtp`], and so is an assistant, which attends to the target's keys and values:
//! see [`assistant`].
//!
//! The input row of token t is z = FC([embedding of t ; the target's final state before t]) (Sparrow, eq. 1). It passes
//! through one decoder layer and a norm; the output approximates the target's final state at t, from which the target's LM
//! head reads the next token. Embeddings and LM head are the target's own, shared, not copied. While drafting, the head's own
//! outputs take the place of states that the target has not computed yet.
//!
//! Checkpoint: `config.json` ([`DraftHeadConfig`]) and `model.safetensors` with `fc.weight` (`width × 2 width`), `fc.bias`,
//! `model.layers.0.…` and `model.norm.weight` under the names of the target's checkpoint: the layer has the biases and the norms
//! of heads that the target's layers have.

pub mod assistant;
mod config;
pub mod dflash;
pub mod eagle3;
mod files;
pub mod mtp;
mod published;
mod selector;
mod states;
mod vispec;

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use specreel_tensor::{CheckpointError, Result};

pub use super::decoder::DraftVocabulary;
pub use assistant::AssistantConfig;
pub use config::{
    DraftHeadConfig, Eagle3Config, MODEL_TYPE, QUERIES, Recipe, TargetIdentity, VisualRows,
    last_attention_layer, layer_of,
};
pub use dflash::{BlockAttention, BlockConfig};
pub use selector::{Selector, SelectorConfig};
pub use states::{ReadStates, StateReader, TextStates};
pub use vispec::Compressed;

use super::decoder::{Decoder, Logits, Pass, Sequence, States, Taps, Workspace, with_slice};
use specreel_checkpoint::Checkpoint;

/// Largest number of embeddings in a fingerprint.
const FINGERPRINT_ROWS: usize = 64;

/// The inputs of the rows of a head's layer, and the way they are combined.
enum HeadInputs {
    /// The decoder's own projection.
    Projected,
    Eagle3(eagle3::Eagle3),
    Mtp(eagle3::Pairs),
    /// Embeddings; what it makes are context rows.
    Blocks(dflash::Blocks),
    Assistant(assistant::Assistant),
}

pub struct DraftHead {
    name: String,
    config: DraftHeadConfig,
    decoder: Arc<Decoder>,
    rows: HeadInputs,
    /// The vision adaptor of a ViSpec head.
    adaptor: Option<vispec::Adaptor>,
    /// Buffers of the projection.
    workspace: Mutex<Workspace>,
}

impl DraftHead {
    /// Load a checkpoint directory for this target. Fails if a file is missing or damaged, or the head was trained for another
    /// target.
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
        let (decoder, rows) = match (&config.eagle3, &config.dflash, &config.assistant) {
            (None, None, None) => {
                (target.with_layer(&checkpoint, &config.layer(target.config()))?, HeadInputs::Projected)
            }
            (None, None, Some(own)) => {
                let (decoder, rows) = assistant::Assistant::load(&checkpoint, own, target)?;
                (decoder, HeadInputs::Assistant(rows))
            }
            (None, Some(own), _) => {
                let (decoder, rows) = dflash::Blocks::load(&checkpoint, &config, own, target)?;
                (decoder, HeadInputs::Blocks(rows))
            }
            (Some(own), ..) => {
                let (decoder, rows) = eagle3::Eagle3::load(&checkpoint, &config, own, target)?;
                (decoder, HeadInputs::Eagle3(rows))
            }
        };
        let adaptor = match config.num_queries {
            0 => None,
            queries => Some(vispec::Adaptor::load(&checkpoint, decoder.config(), queries, target)?),
        };
        Ok(Self { name, config, decoder: Arc::new(decoder), rows, adaptor, workspace: Mutex::default() })
    }

    /// Load the target's own layer for multi-token prediction from its checkpoint, which must have one ([`mtp::is_in`]). Fails if
    /// a tensor is missing or damaged, or the layer's computation is not supported.
    pub fn own(
        checkpoint: Checkpoint,
        target: &Decoder,
        name: &str,
    ) -> std::result::Result<Self, CheckpointError> {
        let config = mtp::config(target, name)
            .map_err(|e| CheckpointError::tensor("model.embed_tokens", &e.to_string()))?;
        let (decoder, rows) = mtp::load(checkpoint, target)?;
        let (decoder, rows) = (Arc::new(decoder), HeadInputs::Mtp(rows));
        Ok(Self { name: name.to_owned(), config, decoder, rows, adaptor: None, workspace: Mutex::default() })
    }

    /// Display name: the directory's.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The contents of its `config.json`.
    pub fn config(&self) -> &DraftHeadConfig {
        &self.config
    }

    /// Its layers between the target's embeddings and LM head.
    pub fn decoder(&self) -> &Arc<Decoder> {
        &self.decoder
    }

    /// Layers of the target after which it reads states (0 = the first); empty if it reads the final states alone.
    pub fn taps(&self) -> &[usize] {
        match &self.rows {
            HeadInputs::Eagle3(own) => &own.taps,
            HeadInputs::Blocks(own) => &own.taps,
            _ => &[],
        }
    }

    /// How it drafts blocks, if it does (DFlash). Its sequence holds context rows, as [`reduce`](Self::reduce) makes them
    /// ([`Sequence::inject`](crate::decoder::Sequence::inject)).
    pub fn block(&self) -> Option<&BlockConfig> {
        self.config.dflash.as_ref()
    }

    /// The selector among the candidates of a block's places, and the projection of the places' final states
    /// (`places × rank`); `None` if the head has no selector (DFlash 2). The states come from a pass of
    /// `sequence`, of the head's decoder: on a GPU, pass and projection are one submission. Fails if the
    /// states have another width.
    pub fn select(&self, sequence: &mut Sequence, states: &States) -> Result<Option<(&Selector, Vec<f32>)>> {
        let HeadInputs::Blocks(dflash::Blocks { selector: Some(selector), .. }) = &self.rows else {
            return Ok(None);
        };
        Ok(Some((selector, selector.project(&self.decoder, states, sequence.workspace())?)))
    }

    /// True if it reads the whole prompt from the target's states: visual tokens are rows like text
    /// ([`fuse_embedded`](Self::fuse_embedded)), and a row has the position of the row whose state it reads.
    pub fn reads_all_rows(&self) -> bool {
        !matches!(self.rows, HeadInputs::Projected | HeadInputs::Assistant(_))
    }

    fn assistant(&self) -> Option<&assistant::Assistant> {
        match &self.rows {
            HeadInputs::Assistant(own) => Some(own),
            _ => None,
        }
    }

    /// True if its layers attend to the target's keys and values: it reads no prompt and keeps nothing
    /// ([`Sequence::assist`](crate::decoder::Sequence::assist)).
    pub fn assists(&self) -> bool {
        self.assistant().is_some()
    }

    /// Logits of final states, `rows × vocab`, in a pass of this sequence of its decoder. Fails if the states have another width.
    pub fn logits(&self, sequence: &mut Sequence, states: &States) -> Result<Logits> {
        match self.assistant() {
            Some(own) => own.logits(&self.decoder, states, sequence.workspace()),
            None => sequence.logits(states),
        }
    }

    fn eagle3(&self) -> Option<&eagle3::Eagle3> {
        match &self.rows {
            HeadInputs::Eagle3(own) => Some(own),
            _ => None,
        }
    }

    /// The target's states as [`DraftHead::fuse`] takes them, `rows × width`: of a head with [`taps`](Self::taps), states after
    /// these layers are concatenated and projected; final states are used as they are. Fails if the states have another width.
    pub fn reduce(&self, states: &States) -> Result<States> {
        match &self.rows {
            HeadInputs::Eagle3(own) => own.reduce(&self.decoder, states, &mut self.workspace()),
            HeadInputs::Blocks(own) => own.reduce(&self.decoder, states, &mut self.workspace()),
            HeadInputs::Projected | HeadInputs::Mtp(_) | HeadInputs::Assistant(_) => Ok(states.clone()),
        }
    }

    pub fn own_taps(&self) -> Taps {
        Taps { before_norm: self.eagle3().is_some_and(|own| !own.norm_output), ..Taps::default() }
    }

    /// Its outputs in a pass of its own, which take the place of states that the target has not computed yet. Fails if the states have
    /// another width.
    pub fn own_states(&self, pass: &Pass) -> Result<States> {
        match &self.rows {
            HeadInputs::Assistant(own) => own.own_states(&self.decoder, &pass.states, &mut self.workspace()),
            HeadInputs::Eagle3(own) if !own.norm_output => {
                Ok(pass.before_norm.as_ref().unwrap_or(&pass.states).clone())
            }
            _ => Ok(pass.states.clone()),
        }
    }

    /// The ids that its LM head knows, if they are fewer than the target's, or in another order.
    pub fn vocabulary(&self) -> Option<&DraftVocabulary> {
        self.eagle3().map(|own| &own.vocabulary)
    }

    /// A run of visual tokens, `rows × width` embeddings, as a head with an adaptor reads it (ViSpec); `None` if it has none. Fails
    /// if the embeddings have another width.
    pub fn compress(&self, visual: &States) -> Result<Option<Compressed>> {
        let adaptor = self.adaptor.as_ref();
        adaptor.map(|adaptor| adaptor.compress(&self.decoder, visual, &mut self.workspace())).transpose()
    }

    /// True if it reads visual tokens through an adaptor.
    pub fn compresses(&self) -> bool {
        self.adaptor.is_some()
    }

    /// States before text rows, `rows × width`, with the vector of the visual tokens before them mixed in (ViSpec; empty = there are
    /// none). Other heads read the states as they are. Fails if the states have another width.
    pub fn mix(&self, before: States, vector: &[f32]) -> Result<States> {
        let Some(adaptor) = &self.adaptor else { return Ok(before) };
        if before.rows() == 0 {
            return Ok(before);
        }
        let nothing = vec![0.0; self.decoder.width()];
        let vector = if vector.is_empty() { &nothing } else { vector };
        adaptor.mix(&self.decoder, &before, vector, &mut self.workspace())
    }

    /// Input rows of tokens from the states before them (`ids × width`): what [`reduce`](Self::reduce) returned, or the head's own
    /// outputs. Fails if an id is outside of the embeddings, or there are not as many states as ids.
    pub fn fuse(&self, ids: &[u32], before: &States) -> Result<States> {
        self.fuse_in(ids, before, &mut self.workspace())
    }

    /// As [`DraftHead::fuse`], for the next pass of a sequence of its decoder: on a GPU, rows and pass are one submission.
    pub fn fuse_for(&self, sequence: &mut Sequence, ids: &[u32], before: &States) -> Result<States> {
        self.fuse_in(ids, before, sequence.workspace())
    }

    fn fuse_in(&self, ids: &[u32], before: &States, workspace: &mut Workspace) -> Result<States> {
        self.check(ids.len(), before)?;
        match &self.rows {
            HeadInputs::Projected => self.decoder.fuse(ids, before, workspace),
            _ => self.rows_in(&self.decoder.embed_in(ids, workspace)?, before, workspace),
        }
    }

    /// As [`DraftHead::fuse`], of rows with these embeddings (`rows × width`), visual tokens among them. Fails if there are not
    /// as many states as rows, or the head reads visual tokens in another way.
    pub fn fuse_embedded(&self, embeddings: &States, before: &States) -> Result<States> {
        self.check(embeddings.rows(), before)?;
        self.rows_in(embeddings, before, &mut self.workspace())
    }

    fn rows_in(&self, embeddings: &States, before: &States, workspace: &mut Workspace) -> Result<States> {
        match &self.rows {
            HeadInputs::Projected => specreel_tensor::bail!("the draft head fuses text alone"),
            HeadInputs::Assistant(own) => own.rows(&self.decoder, embeddings, before, workspace),
            HeadInputs::Eagle3(own) => own.rows(&self.decoder, embeddings, before, workspace),
            HeadInputs::Mtp(own) => own.rows(&self.decoder, embeddings, before, workspace),
            HeadInputs::Blocks(_) => Ok(embeddings.clone()),
        }
    }

    fn check(&self, rows: usize, before: &States) -> Result<()> {
        let (expected, (count, width)) = ((rows, self.config.target.hidden_size), before.shape());
        if (count, width) != expected {
            specreel_tensor::bail!("expected {rows} states of {} values, got {count} of {width}", expected.1);
        }
        Ok(())
    }

    fn workspace(&self) -> std::sync::MutexGuard<'_, Workspace> {
        self.workspace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes of what makes its input or context rows, and of its selector.
    pub fn projection_bytes(&self) -> usize {
        let rows = match &self.rows {
            HeadInputs::Projected => self.decoder.projection_bytes(),
            HeadInputs::Eagle3(own) => own.bytes(),
            HeadInputs::Mtp(own) => own.projection.bytes(),
            HeadInputs::Blocks(own) => own.bytes(),
            HeadInputs::Assistant(own) => own.bytes(),
        };
        rows + self.adaptor.as_ref().map_or(0, vispec::Adaptor::bytes)
    }
}

/// The states that a pass of the target tapped, concatenated, `rows × (taps · width)`. Fails if it tapped none.
pub fn tapped(pass: &Pass, target: &Decoder) -> Result<States> {
    let mut states = pass.after_layers.iter();
    let Some(first) = states.next() else {
        specreel_tensor::bail!("a pass without the states of its layers")
    };
    states.try_fold(first.clone(), |all, next| target.beside(&all, next))
}

impl TargetIdentity {
    /// The identity of a loaded target. Fails if the model has no embeddings.
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
