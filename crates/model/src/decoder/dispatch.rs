//! A decoder and its cache on any device.
//!
//! What is common to all devices is checked in front of them: a cache of another device or model is never computed with.

use std::{
    any::Any,
    ops::{Deref, DerefMut, Range},
};

use super::{DraftVocabulary, Input, Logits, Mask, Pass, Positions, States, Taps, buffers::PassBuffers};
use crate::config::TextConfig;
use specreel_checkpoint::Checkpoint;
use specreel_tensor::{
    Error, Result, Weights,
    fused::FusedMatrix,
    ops::{HeldWeights as _, Loaded, RowOps},
    store::check_maps,
};

/// A decoder's weights, on a device; see [`DeviceDecoder`].
pub struct Decoder(Box<dyn DeviceDecoder>);

impl Deref for Decoder {
    type Target = dyn DeviceDecoder;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

/// The keys and values of one sequence in all layers, on a device; see [`SequenceCache`].
pub struct Cache(Box<dyn SequenceCache>);

impl Deref for Cache {
    type Target = dyn SequenceCache;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl DerefMut for Cache {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut *self.0
    }
}

/// Buffers of a pass, kept by the caller between passes on a device.
pub struct Workspace(Box<dyn Any + Send>);

impl Default for Workspace {
    fn default() -> Self {
        Self(Box::new(()))
    }
}

impl Workspace {
    /// The buffers of a device; empty ones in place of another device's.
    pub(super) fn of<D: RowOps>(&mut self) -> Result<&mut PassBuffers<D>> {
        if !self.0.is::<PassBuffers<D>>() {
            self.0 = Box::new(PassBuffers::<D>::default());
        }
        match self.0.downcast_mut() {
            Some(buffers) => Ok(buffers),
            None => specreel_tensor::bail!("the buffers are of another device"),
        }
    }
}

/// A matrix on the device of the decoder that loaded it.
pub struct Matrix {
    inputs: usize,
    bytes: usize,
    held: Box<dyn Any + Send + Sync>,
}

impl Matrix {
    pub(super) fn new<D: RowOps>(inputs: usize, matrix: D::Matrix) -> Self {
        Self { inputs, bytes: matrix.bytes(), held: Box::new(matrix) }
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The matrix, if it is on this device and takes such rows.
    pub(super) fn on<D: RowOps>(&self, rows: &States) -> Result<&D::Matrix> {
        let width = rows.shape().1;
        if width != self.inputs {
            specreel_tensor::bail!("a matrix for rows of {} values got rows of {width}", self.inputs);
        }
        match self.held.downcast_ref() {
            Some(matrix) => Ok(matrix),
            None => specreel_tensor::bail!("the decoder and the matrix are on different devices"),
        }
    }
}

impl Decoder {
    pub(super) fn new(decoder: impl DeviceDecoder + 'static) -> Self {
        Self(Box::new(decoder))
    }

    /// Run rows through all layers. The cache grows by as many slots.
    ///
    /// Rows of the model's width are embeddings or states. In a model with n DeepStack levels they may be 1 + n times as wide: the
    /// next n blocks of columns are added to the states after the first n layers, one each. Fails if the shapes of input,
    /// positions and mask do not agree, an id is outside of the vocabulary, or the cache is of another device or model.
    pub fn forward<'a>(
        &self,
        input: impl Into<Input<'a>>,
        positions: &Positions,
        mask: &Mask,
        cache: &mut Cache,
        taps: &Taps,
        workspace: &mut Workspace,
    ) -> Result<Pass> {
        self.check_layout(cache)?;
        let pass =
            self.0.pass(PassRequest { input: input.into(), positions, mask, cache, taps }, workspace)?;
        check_maps()?;
        Ok(pass)
    }

    /// [`Decoder::forward`] of several texts at once, in one reading of the weights: the results, in the order of the requests, are
    /// those of a pass for each. Only for a decoder that [joins](DeviceDecoder::joins) passes, and rows that are ids.
    pub fn forward_together(
        &self,
        requests: Vec<PassRequest<'_>>,
        workspace: &mut Workspace,
    ) -> Vec<Result<Pass>> {
        let refused = requests.iter().find_map(|request| self.check_layout(request.cache).err());
        if let Some(error) = refused {
            let problem = error.to_string();
            return requests.iter().map(|_| Err(Error::Message(problem.clone()))).collect();
        }
        let mut passes = self.0.passes(requests, workspace);
        if let Err(error) = check_maps() {
            let problem = error.to_string();
            passes.iter_mut().for_each(|pass| *pass = Err(Error::Message(problem.clone())));
        }
        passes
    }

    fn check_layout(&self, cache: &Cache) -> Result<()> {
        let c = self.config();
        let (layout, got) = ([c.attention_layers(), c.kv_heads, c.head_dim], cache.layout());
        if layout != got {
            specreel_tensor::bail!(
                "the decoder has the layout {layout:?} (attention layers, key heads, head width), the cache {got:?}"
            );
        }
        Ok(())
    }
}

/// A pass over one cache; see [`Decoder::forward`].
pub struct PassRequest<'a> {
    pub input: Input<'a>,
    pub positions: &'a Positions,
    pub mask: &'a Mask,
    pub cache: &'a mut Cache,
    pub taps: &'a Taps,
}

/// What a [`Decoder`] does on every device.
pub trait DeviceDecoder: Send + Sync {
    /// The same model ending after its first `layers` layers (LayerSkip), followed by norm and head. All weights are shared. Its
    /// rows may be as wide as the whole model's.
    fn first_layers(&self, layers: usize) -> Decoder;

    /// A model of one layer of its own between this model's embeddings and head, which are shared, with a projection of its
    /// input rows: a draft head. `config` describes the layer; its weights and its norm are named as in a whole
    /// model.
    fn with_layer(&self, checkpoint: &Checkpoint, config: &TextConfig) -> Loaded<Decoder>;

    /// As [`DeviceDecoder::with_layer`], of all layers that `config` counts, without a projection of their rows.
    fn with_inner_layers(&self, checkpoint: &Checkpoint, config: &TextConfig) -> Loaded<Decoder>;

    /// As [`DeviceDecoder::with_layer`], a layer whose queries, keys and values enter with its rows (EAGLE-3), and a head of its own
    /// with `outputs` rows, if it has one.
    ///
    /// A row that enters holds queries, keys and values, `(heads + 2 · kv_heads) · head_dim`, then the state that bypasses the layer, `hidden`.
    fn with_entered_layer(
        &self,
        checkpoint: &Checkpoint,
        config: &TextConfig,
        outputs: Option<usize>,
    ) -> Loaded<Decoder>;

    /// An assistant: layers with queries alone, which attend to this model's keys and values ([`DeviceDecoder::assist`]), and a head of
    /// their own. Embeddings are this model's.
    fn with_assisting_layers(
        &self,
        checkpoint: &Checkpoint,
        config: &TextConfig,
        head: &FusedMatrix,
    ) -> Loaded<Decoder>;

    /// The ids that the rows of its head stand for; `None` if they are all, in order.
    fn vocabulary(&self) -> Option<&DraftVocabulary>;

    /// See [`Decoder::with_vocabulary`].
    fn short(&self, checkpoint: &Checkpoint, vocabulary: DraftVocabulary) -> Loaded<Decoder>;

    /// Load a matrix onto this decoder's device, in its weight type.
    fn matrix(&self, list: &FusedMatrix, weights: &dyn Weights) -> Loaded<Matrix>;

    /// Width of the states: of all rows that leave a pass, and of rows that enter it without DeepStack levels.
    fn width(&self) -> usize {
        self.config().hidden
    }

    fn config(&self) -> &TextConfig;

    /// True if a row's result is bit-identical for any other rows in the pass.
    fn is_batch_invariant(&self) -> bool;

    fn bytes(&self) -> usize;

    /// Bytes of the matrices that are parts of mapped files: the system may take their memory back, and reads them again.
    fn mapped_bytes(&self) -> usize;

    /// Bytes of the matrices that a pass of `rows` rows and its logits read; of a mixture of experts, what independent rows read on
    /// average. A pass reads single rows of the embedding table.
    fn pass_bytes(&self, rows: usize) -> usize;

    /// [`DeviceDecoder::pass_bytes`] of one row.
    fn matrix_bytes(&self) -> usize {
        self.pass_bytes(1)
    }

    /// Bytes of a draft head's projection.
    fn projection_bytes(&self) -> usize;

    /// Bytes of keys and values of `slots` slots in all layers.
    fn cache_bytes(&self, slots: usize) -> usize;

    /// Rows of a prefill pass.
    fn chunk(&self) -> usize;

    fn cache(&self, capacity: usize) -> Cache;

    /// Embeddings of ids, `ids × width`, on the decoder's device. Fails if an id is outside of the vocabulary.
    fn embed(&self, ids: &[u32]) -> Result<States>;

    /// Rows of a prompt, `rows × input width`, of embeddings: with zeros for DeepStack levels, or with what is added in each layer,
    /// of text with these ids, else of visual tokens.
    fn prompt_rows(&self, embeddings: &States, ids: Option<&[u32]>) -> Result<States>;

    /// As [`DeviceDecoder::embed`], before the next operations in this workspace.
    fn embed_in(&self, ids: &[u32], workspace: &mut Workspace) -> Result<States>;

    /// `x / sqrt(mean(x²) + eps) · weight` of rows, before the next operations in this workspace.
    fn normed(&self, rows: &States, weight: &[f32], eps: f32, workspace: &mut Workspace) -> Result<States>;

    /// Input rows of a draft head, `ids × width`: the projection of the tokens' embeddings and of the states before them
    /// (`ids × width`). Fails if an id is outside of the vocabulary, there are not as many states as ids, or the model is not a
    /// draft head.
    fn fuse(&self, ids: &[u32], before: &States, workspace: &mut Workspace) -> Result<States>;

    /// Rows concatenated, `rows × (a + b)`, on the decoder's device. Fails if they differ in number.
    fn beside(&self, a: &States, b: &States) -> Result<States>;

    /// `W x + b` of rows, `rows × outputs`. Fails if the rows have another width, or the matrix is of another device.
    fn project(&self, matrix: &Matrix, rows: &States, workspace: &mut Workspace) -> Result<States>;

    /// True if passes over several caches are computed at once ([`Decoder::forward_together`]).
    fn joins(&self) -> bool;

    /// [`Decoder::forward`] with a cache of the same layout.
    fn pass(&self, request: PassRequest<'_>, workspace: &mut Workspace) -> Result<Pass>;

    /// [`Decoder::forward_together`] with caches of the same layout.
    fn passes(&self, requests: Vec<PassRequest<'_>>, workspace: &mut Workspace) -> Vec<Result<Pass>>;

    /// Run rows (`rows × width`) of an assistant through its layers, which attend to the slots of a target's cache, all of the rows at one
    /// position. The cache stays as it is. Fails if the model is no assistant, the rows have another width, or the cache is empty
    /// or of another device.
    fn assist(
        &self,
        rows: &States,
        position: u32,
        cache: &mut Cache,
        workspace: &mut Workspace,
    ) -> Result<Pass>;

    /// Append rows that are no tokens (`rows × width`) to the cache: every layer keeps their keys and values, computed from
    /// the rows as they are. Fails if the rows have another width, or the cache is of another device or model.
    fn inject(
        &self,
        rows: &States,
        positions: &Positions,
        cache: &mut Cache,
        workspace: &mut Workspace,
    ) -> Result<()>;

    /// Wait until an accelerator has completed all work that was queued in this workspace.
    fn synchronize(&self, workspace: &mut Workspace) -> Result<()>;

    /// Logits of final states, `rows × vocab`. Fails if the states are not `rows × width`.
    fn logits(&self, states: &States, workspace: &mut Workspace) -> Result<Logits>;
}

/// What a [`Cache`] does on every device.
pub trait SequenceCache: Any + Send {
    /// Slots in use.
    fn len(&self) -> usize;

    /// True if no slot is in use.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of layers with full attention, key heads and values of a head.
    fn layout(&self) -> [usize; 3];

    fn bytes(&self) -> usize;

    /// Bytes that are allocated for `more` slots after those in use, at most.
    fn growth(&self, more: usize) -> usize;

    /// Slots at the end whose recurrent state is not kept: [`SequenceCache::truncate`] went before the kept one. A pass needs it; dropping
    /// these slots as well, and feeding them again makes up for it. 0 in models with full attention only.
    fn owed(&self) -> usize;

    /// Keep the state of the last slot, so that the cache can be truncated to it later. Only the last marks are kept.
    fn mark(&mut self);

    /// Drop all slots from `len` on. O(1). A `len` larger than the current one has no effect. See [`SequenceCache::owed`].
    fn truncate(&mut self, len: usize);

    /// Of the slots from `base` on, keep those at `base + rows[0], base + rows[1], …` (ascending), moved together: of a
    /// verified tree, its accepted path. See [`SequenceCache::owed`]. Panics if the rows are not ascending or not in use.
    fn keep(&mut self, base: usize, rows: &[usize]);

    /// The cache of a model of this configuration that ends after some of the layers.
    fn first_layers(&self, config: &TextConfig) -> Cache;

    /// A cache of some of this cache's slots, chosen for each layer with full attention and each head: `kept(layer, head)`, `len`
    /// slots each. States of layers with linear attention, which have no slots, are those after all of them. Panics if a list has
    /// another length, or a slot is not in use.
    fn gather<'a>(&self, len: usize, capacity: usize, kept: &dyn Fn(usize, usize) -> &'a [usize]) -> Cache;

    /// Append the slots `range` of a cache of the same model. States of layers with linear attention become the states of the other
    /// cache after its last slot, or after the range if it is its beginning and this cache is empty. Fails if the other cache is
    /// of another device or model, the slots are not in use, or the state after them is not kept.
    fn append(&mut self, other: &Cache, range: Range<usize>) -> Result<()>;
}

impl Cache {
    pub(super) fn new(cache: impl SequenceCache) -> Self {
        Self(Box::new(cache))
    }

    /// The cache, if it is of this kind: of a device.
    pub(super) fn on<C: SequenceCache>(&self) -> Option<&C> {
        (&*self.0 as &dyn Any).downcast_ref()
    }

    /// As [`Cache::on`], to be changed.
    pub(super) fn on_mut<C: SequenceCache>(&mut self) -> Option<&mut C> {
        (&mut *self.0 as &mut dyn Any).downcast_mut()
    }
}

#[cfg(test)]
mod tests;
