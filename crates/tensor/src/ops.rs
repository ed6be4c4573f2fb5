//! The operations of which models consist, on one device: what the decoder is written over.
//!
//! A device keeps rows of f32 values (or of its compute type) in memory of its own between operations. An operation computes a
//! row alike whatever rows stand beside it, except on candle's accelerators ([`ComputeDevice::is_batch_invariant`]). Operations
//! may be queued: only reading [`States`], [`Logits`] or attention statistics waits for them.
//!
//! [`ComputeDevice::is_batch_invariant`]: super::ComputeDevice::is_batch_invariant

use std::ops::Range;

use crate::Result;

use super::{
    attention::{AttentionProbe, AttentionShape, AttentionStats, Mask},
    fused::FusedMatrix,
    logits::Logits,
    recurrent::{Plan, RecurrentStates},
    states::States,
};
use crate::Weights;
use crate::{CheckpointError, LinearAttention};

/// What is loaded from a checkpoint.
pub type Loaded<T> = std::result::Result<T, CheckpointError>;

/// The rows that enter a pass.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// Ids, whose embeddings are looked up.
    Ids(&'a [u32]),
    /// Rows, `rows × width`.
    States(&'a States),
}

impl Input<'_> {
    /// Number of rows.
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
    /// Number of new rows.
    pub rows: usize,
    /// Number of the model's layers, over which attention is averaged.
    pub layers: usize,
    /// Heads.
    pub shape: AttentionShape,
    /// Cosines of the rows' angles, `rows × head_dim / 2`.
    pub cos: Vec<f32>,
    /// Their sines.
    pub sin: Vec<f32>,
    /// The slots that each row sees.
    pub mask: &'a Mask,
    /// Attention weights to measure.
    pub probe: Option<&'a AttentionProbe>,
}

/// Norms of the queries and keys in each head.
#[derive(Debug)]
pub struct HeadNorms<'a, V> {
    /// Weights for queries, `head_dim` values.
    pub queries: &'a V,
    /// Weights for keys, `head_dim` values.
    pub keys: &'a V,
    /// Added to the mean square.
    pub eps: f32,
}

impl<V> Clone for HeadNorms<'_, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V> Copy for HeadNorms<'_, V> {}

/// What a layer with linear attention has beside its matrices.
#[derive(Clone, Debug)]
pub struct LinearWeights {
    /// Sizes.
    pub shape: LinearAttention,
    /// The convolution, `channels × kernel`; the last weight is that of the row itself.
    pub convolution: Vec<f32>,
    /// The rate of each value head's decay, `-exp(A_log)`.
    pub rates: Vec<f32>,
    /// Added to each value head's column before softplus.
    pub biases: Vec<f32>,
    /// The norm of each head's output, `value_dim` values.
    pub norm: Vec<f32>,
    /// Added to its mean square.
    pub eps: f32,
}

/// The operations of one device.
///
/// `next` is the matrix that takes an operation's output: the device may store the output as that matrix needs it.
pub trait Ops: Clone + Send + Sync + Sized {
    /// A matrix of `outputs × inputs`, perhaps with a bias.
    type Matrix: Send + Sync;
    /// The weights of a norm.
    type Vector: Send + Sync;
    /// The embedding table.
    type Table: Send + Sync;
    /// A choice of columns.
    type Columns: Send + Sync;
    /// What a layer with linear attention has beside its matrices.
    type Linear: Send + Sync;
    /// The states of all layers with linear attention, and their log.
    type Recurrent: RecurrentStates;
    /// Rows in the device's memory; they take the size of what is written to them.
    type Rows: Default + Send;
    /// Keys and values of one sequence.
    type Cache: DeviceCache;
    /// What is kept between the passes of one sequence.
    type Work: Default + Send;
    /// A pass in progress.
    type Pass<'a>;

    /// Rows of a prefill pass, which fill the device.
    fn chunk(&self) -> usize;

    /// Load a matrix.
    fn matrix(&self, list: &FusedMatrix, checkpoint: &dyn Weights) -> Loaded<Self::Matrix>;

    /// The weights of a norm, with the tensor's name for errors.
    fn vector(&self, name: &str, values: Vec<f32>) -> Loaded<Self::Vector>;

    /// Columns by number, in the order in which they are chosen.
    fn chosen(&self, columns: Vec<u32>) -> Loaded<Self::Columns>;

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

    /// Bytes of a matrix.
    fn matrix_bytes(matrix: &Self::Matrix) -> usize;

    /// Bytes of a matrix that are parts of mapped files.
    fn mapped_bytes(_: &Self::Matrix) -> usize {
        0
    }

    /// Bytes of the table; 0 if the head is in the same memory.
    fn table_bytes(table: &Self::Table) -> usize;

    /// Bytes of a slot's keys and values in one layer.
    fn slot_bytes(&self, shape: AttentionShape) -> usize;

    /// An empty cache for `capacity` slots.
    fn cache(&self, layers: usize, shape: AttentionShape, capacity: usize) -> Self::Cache;

    /// Embeddings of ids, all of which are in the table.
    fn embed(&self, table: &Self::Table, ids: &[u32]) -> Result<States>;

    /// Begin a pass: reserve slots, and send what the layers have in common to the device.
    fn begin<'a>(
        &self,
        work: &'a mut Self::Work,
        spec: PassSpec<'a>,
        cache: &mut Self::Cache,
    ) -> Result<Self::Pass<'a>>;

    /// `x` = the input rows, of any width.
    fn load(
        &self,
        pass: &mut Self::Pass<'_>,
        table: &Self::Table,
        input: Input<'_>,
        x: &mut Self::Rows,
    ) -> Result<()>;

    /// `x += add`, then `out = x / sqrt(mean(x²) + eps) · weight`.
    #[expect(clippy::too_many_arguments, reason = "two inputs, weights, two outputs")]
    fn norm(
        &self,
        pass: &mut Self::Pass<'_>,
        x: &mut Self::Rows,
        add: Option<&Self::Rows>,
        weight: &Self::Vector,
        eps: f32,
        next: Option<&Self::Matrix>,
        out: &mut Self::Rows,
    ) -> Result<()>;

    /// `out = W x + b`.
    fn product(
        &self,
        pass: &mut Self::Pass<'_>,
        matrix: &Self::Matrix,
        x: &Self::Rows,
        out: &mut Self::Rows,
    ) -> Result<()>;

    /// For a matrix of gates and as many values: `out = silu(gates) ∘ values`. `buffer` holds both.
    fn gated(
        &self,
        pass: &mut Self::Pass<'_>,
        matrix: &Self::Matrix,
        x: &Self::Rows,
        buffer: &mut Self::Rows,
        next: &Self::Matrix,
        out: &mut Self::Rows,
    ) -> Result<()>;

    /// Norm the queries and keys of `qkv` (`rows × (heads + 2 · kv_heads) · head_dim`) in each head, if the model does, rotate
    /// them, and write keys and values to the slots after those in use.
    fn store(
        &self,
        pass: &mut Self::Pass<'_>,
        qkv: &mut Self::Rows,
        norms: Option<HeadNorms<'_, Self::Vector>>,
        cache: &mut Self::Cache,
        layer: usize,
    ) -> Result<()>;

    /// `out` (`rows × heads · head_dim`) = attention of the rotated queries over the visible slots of a layer.
    fn attend(
        &self,
        pass: &mut Self::Pass<'_>,
        qkv: &Self::Rows,
        cache: &Self::Cache,
        layer: usize,
        next: &Self::Matrix,
        out: &mut Self::Rows,
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
    /// and `out` (`rows × values`) is o, normed in each head, times silu(z). `plan` says with which state the pass starts, what of
    /// it is logged, and which states are kept.
    #[expect(clippy::too_many_arguments, reason = "rows, weights, states and their plan")]
    fn mix(
        &self,
        pass: &mut Self::Pass<'_>,
        mixed: &Self::Rows,
        weights: &Self::Linear,
        plan: &Plan,
        states: &mut Self::Recurrent,
        layer: usize,
        next: &Self::Matrix,
        out: &mut Self::Rows,
    ) -> Result<()>;

    /// `x` = the chosen columns of other rows.
    fn choose(
        &self,
        pass: &mut Self::Pass<'_>,
        from: &Self::Rows,
        columns: &Self::Columns,
        x: &mut Self::Rows,
    ) -> Result<()>;

    /// `x ← sigmoid(gates) ∘ x`.
    fn gate_by(
        &self,
        pass: &mut Self::Pass<'_>,
        gates: &Self::Rows,
        next: &Self::Matrix,
        x: &mut Self::Rows,
    ) -> Result<()>;

    /// `x += add`.
    fn add(&self, pass: &mut Self::Pass<'_>, x: &mut Self::Rows, add: &Self::Rows) -> Result<()>;

    /// `x` = some columns of other rows.
    fn columns(
        &self,
        pass: &mut Self::Pass<'_>,
        from: &Self::Rows,
        columns: Range<usize>,
        x: &mut Self::Rows,
    ) -> Result<()>;

    /// `x +=` some columns of other rows, which are as wide as `x`.
    fn add_columns(
        &self,
        pass: &mut Self::Pass<'_>,
        x: &mut Self::Rows,
        from: &Self::Rows,
        columns: Range<usize>,
    ) -> Result<()>;

    /// A copy of rows that outlives the pass.
    fn keep(&self, pass: &mut Self::Pass<'_>, rows: &Self::Rows) -> Result<States>;

    /// As [`Ops::keep`], where the rows themselves are not needed any more.
    fn take(&self, pass: &mut Self::Pass<'_>, rows: &mut Self::Rows) -> Result<States> {
        self.keep(pass, rows)
    }

    /// End a pass: its slots are in use.
    fn finish(&self, pass: Self::Pass<'_>, cache: &mut Self::Cache) -> Result<Option<AttentionStats>>;

    /// `W x + b` of states.
    fn project(&self, work: &mut Self::Work, matrix: &Self::Matrix, states: &States) -> Result<States>;

    /// The head's logits of states.
    fn logits(&self, work: &mut Self::Work, head: &Self::Matrix, states: &States) -> Result<Logits>;

    /// Rows beside each other, `rows × (a + b)`.
    fn beside(&self, a: &States, b: &States) -> Result<States>;

    /// Wait until all work that was queued for a sequence is done.
    fn synchronize(&self, work: &mut Self::Work) -> Result<()>;
}

/// A full cache grows by a multiple of this number of slots.
pub const GROW: usize = 256;

/// Keys and values of one sequence in all layers: slots are rolled back in O(1), compacted and copied. Slots are checked by the
/// caller.
pub trait DeviceCache: Send + Sized {
    /// Slots in use.
    fn len(&self) -> usize;

    /// True if no slot is in use.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of layers, key heads and values of a head.
    fn layout(&self) -> [usize; 3];

    /// Allocated bytes.
    fn bytes(&self) -> usize;

    /// Allocated slots, or those that the first pass allocates.
    fn capacity(&self) -> usize;

    /// Bytes that are allocated for `more` slots after those in use, beside those of [`DeviceCache::bytes`]; at most.
    fn growth(&self, more: usize) -> usize {
        let (need, capacity) = (self.len() + more, self.capacity().max(1));
        if need <= capacity {
            return 0;
        }
        // A cache grows by half at least, and for a moment has one layer twice.
        let grown = (need + GROW).max(capacity + capacity / 2);
        (self.bytes() / capacity) * (grown - capacity) + self.bytes() / self.layout()[0].max(1)
    }

    /// Drop all slots from `len` on. A `len` larger than the current one has no effect.
    fn truncate(&mut self, len: usize);

    /// Of the slots from `base` on, keep those at `base + rows[0], base + rows[1], …` (ascending), moved together.
    fn keep(&mut self, base: usize, rows: &[usize]);

    /// The cache of the first `layers` layers.
    fn first_layers(&self, layers: usize) -> Self;

    /// A cache of `len` slots of each layer and head: `kept(layer, head)`.
    fn gather<'a>(&self, len: usize, capacity: usize, kept: impl Fn(usize, usize) -> &'a [usize]) -> Self;

    /// Append the slots `range` of a cache of the same model.
    ///
    /// # Errors
    /// If the other cache is of another type or device, or memory does not suffice.
    fn append(&mut self, other: &Self, range: Range<usize>) -> Result<()>;
}
