//! What decoders and draft heads do on a device.

use std::collections::BTreeMap;

use super::{HeldWeights, Loaded, Out, RowOps};
use crate::{
    LinearAttention, LinearWeights, Result, Weights,
    attention::{AttentionProbe, AttentionShape, AttentionStats, Mask},
    cache::DeviceCache,
    experts::Experts,
    fused::FusedMatrix,
    logits::Logits,
    recurrent::{RecurrentPass, RecurrentStates},
    states::States,
};

/// Why a device refuses a model.
pub const NO_EXPERTS: &str = "a mixture of experts is computed on cpu and gpu only: add --device gpu or cpu";

/// The rows that enter a pass.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// Ids, whose embeddings are looked up.
    Ids(&'a [u32]),
    /// Rows, `rows × width`.
    States(&'a States),
}

impl Input<'_> {
    pub fn rows(&self) -> usize {
        match self {
            Self::Ids(ids) => ids.len(),
            Self::States(states) => states.rows(),
        }
    }
}

impl<'a> From<&'a States> for Input<'a> {
    fn from(states: &'a States) -> Self {
        Self::States(states)
    }
}

impl<'a> From<&'a [u32]> for Input<'a> {
    fn from(ids: &'a [u32]) -> Self {
        Self::Ids(ids)
    }
}

/// What the layers of a pass have in common.
#[derive(Debug)]
pub struct PassSpec<'a> {
    /// The number of rows before its own among those that are computed together.
    pub first: usize,
    pub rows: usize,
    /// Number of the model's layers, over which attention is averaged.
    pub layers: usize,
    pub shape: AttentionShape,
    /// Cosines of the rows' angles, `rows × head_dim / 2`.
    pub cos: Vec<f32>,
    pub sin: Vec<f32>,
    /// The slots that each row sees.
    pub mask: &'a Mask,
    /// Of these slots a row sees only so many of the last, its own among them; `None` = all.
    pub window: Option<usize>,
    pub probe: Option<&'a AttentionProbe>,
}

/// What a device may compute or not.
#[derive(Clone, Copy, Debug)]
pub enum Ability {
    /// Attention of heads of this width.
    Heads(usize),
    /// Attention within [windows](PassSpec::window).
    Windows,
    /// The rows of passes over several caches at once, in all operations but linear attention.
    Together,
}

/// Norms of the queries and keys in each head.
#[derive(Debug)]
pub struct HeadNorms<'a, V> {
    /// Weights for queries, `head_dim` values.
    pub queries: &'a V,
    /// Weights for keys, `head_dim` values; not used where rows hold queries alone.
    pub keys: &'a V,
    /// True if values are normed in each head too, without weights.
    pub values: bool,
    /// Added to the mean square.
    pub eps: f32,
}

impl<V> Clone for HeadNorms<'_, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V> Copy for HeadNorms<'_, V> {}

/// What decoders and draft heads do on a device.
pub trait DecoderOps: RowOps {
    /// An embedding table; it has no bytes if the head is in the same memory.
    type Table: HeldWeights;
    /// The tensors of a layer with linear attention besides its matrices.
    type Linear: Send + Sync;
    /// The states of all layers with linear attention, and their log.
    type Recurrent: RecurrentStates;
    /// Keys and values of one sequence.
    type Cache: DeviceCache + 'static;

    /// True if a row's result has the same bits among any other rows.
    fn is_batch_invariant(&self) -> bool;

    fn computes(&self, ability: Ability) -> bool;

    /// Load a layer of experts. Fails if the device does not compute it, and as [`RowOps::matrix`].
    fn experts(&self, layer: Experts<FusedMatrix>, checkpoint: &dyn Weights)
    -> Loaded<Experts<Self::Matrix>>;

    /// Rows of a prefill pass, which fill the device.
    fn chunk(&self) -> usize;

    /// The weights of a layer with linear attention; an error names the tensor `name`.
    fn linear(&self, name: &str, weights: LinearWeights) -> Loaded<Self::Linear>;

    /// The states of `layers` layers of an empty sequence.
    fn recurrent(&self, layers: usize, shape: LinearAttention) -> Self::Recurrent;

    /// Load the embedding table `name` and the head, both `vocab × hidden`; with `tied` they are the same tensor.
    fn embeddings(
        &self,
        name: &str,
        head: &FusedMatrix,
        tied: bool,
        checkpoint: &dyn Weights,
    ) -> Loaded<(Self::Table, Self::Matrix)>;

    /// Bytes of a slot's keys and values in one layer.
    fn slot_bytes(&self, shape: AttentionShape) -> usize;

    /// An empty cache for `capacity` slots.
    fn cache(&self, layers: usize, shape: AttentionShape, capacity: usize) -> Self::Cache;

    /// Embeddings of ids, all of which are in the table.
    fn embed(&self, table: &Self::Table, ids: &[u32]) -> Result<States>;

    /// As [`DecoderOps::embed`], before the next operations of a sequence.
    fn embed_in(&self, _: &mut Self::Work, table: &Self::Table, ids: &[u32]) -> Result<States> {
        self.embed(table, ids)
    }

    /// Begin a pass: reserve slots, and send the layers' common inputs to the device.
    fn begin(&self, work: &mut Self::Work, pass: &PassSpec<'_>, cache: &mut Self::Cache) -> Result<()>;

    /// `x` = the input rows, of any width.
    fn load(
        &self,
        work: &mut Self::Work,
        table: &Self::Table,
        input: Input<'_>,
        x: &mut Self::Rows,
    ) -> Result<()>;

    /// `out` = a feed-forward layer of experts: for each row the sum of the results of its experts, by their weights (see
    /// [`Experts`]). Rows are as the layer's router takes them. Returns the number of experts that were read, without the
    /// shared one, if the host knows it.
    fn mix_experts(
        &self,
        work: &mut Self::Work,
        layer: &Experts<Self::Matrix>,
        x: &Self::Rows,
        out: &mut Self::Rows,
    ) -> Result<Option<usize>>;

    /// Norm the queries and keys of `qkv` (`rows × (heads + 2 · kv_heads) · head_dim`) in each head, if the model does, rotate
    /// them, and write keys and values to the slots after those in use: of the rows of this pass alone. Rows that hold queries alone (`rows × heads · head_dim`)
    /// are normed and rotated: keys and values are another layer's.
    fn store(
        &self,
        work: &mut Self::Work,
        pass: &PassSpec<'_>,
        qkv: &mut Self::Rows,
        norms: Option<HeadNorms<'_, Self::Vector>>,
        cache: &mut Self::Cache,
        layer: usize,
    ) -> Result<()>;

    /// `out` (`rows × heads · head_dim`) = attention of the rotated queries of all passes over the visible slots of a layer, each in
    /// its own cache. Fails if there are several passes on a device that does not compute them [together](Ability::Together).
    fn attend<'c>(
        &self,
        work: &mut Self::Work,
        passes: &[PassSpec<'_>],
        qkv: &Self::Rows,
        caches: &dyn Fn(usize) -> &'c Self::Cache,
        layer: usize,
        out: Out<'_, Self>,
    ) -> Result<()>;

    /// Linear attention by the gated delta rule (arXiv:2412.06464), row after row.
    ///
    /// `mixed` is `rows × (channels + values + 2 · value_heads)`: the queries, keys and values of a row, the gate z of its output, a
    /// column b for each value head's update, and a column a for its decay. Queries, keys and values pass the causal convolution
    /// and silu; queries and keys are divided by their length in each head (`sqrt(Σ x² + 1e-6)`), queries also by
    /// `sqrt(key_dim)`. Then for each value head, with the state S (`key_dim × value_dim`) of the row before,
    ///
    /// ```text
    /// S ← exp(rate · softplus(a + bias)) S
    /// d = sigmoid(b) (v − Sᵀ k)
    /// S ← S + k dᵀ
    /// o = Sᵀ q
    /// ```
    ///
    /// and `out` (`rows × values`) is o, normed in each head, times silu(z). The plan says with which state the pass starts, what
    /// of it is logged, and which states are kept.
    fn mix(
        &self,
        work: &mut Self::Work,
        mixed: &Self::Rows,
        weights: &Self::Linear,
        states: RecurrentPass<'_, Self::Recurrent>,
        out: Out<'_, Self>,
    ) -> Result<()>;

    /// End a pass: its slots are in use.
    fn finish(
        &self,
        work: &mut Self::Work,
        pass: &PassSpec<'_>,
        cache: &mut Self::Cache,
    ) -> Result<Option<AttentionStats>>;

    /// The head's logits of states.
    fn logits(&self, work: &mut Self::Work, head: &Self::Matrix, states: &States) -> Result<Logits>;
}

/// Kernels of which the faster ones are found by measurement.
pub trait TunedOps: DecoderOps {
    /// What their speed depends on: the device and its driver.
    fn kernel_device(&self) -> String;

    /// Take the kernels that were measured as the faster ones earlier, and measure those for other types of these matrices. Returns
    /// what is new: for each weight type, the most rows of a pass for which the kernel for few rows is taken.
    fn choose_kernels(
        &self,
        known: &BTreeMap<String, usize>,
        matrices: &[&Self::Matrix],
    ) -> Result<BTreeMap<String, usize>>;

    /// A matrix of at most the first outputs of another one, on the same memory.
    fn first_outputs(matrix: &Self::Matrix, outputs: usize) -> Self::Matrix;
}
