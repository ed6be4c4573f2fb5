//! The operations of which models consist, on one device: what decoders and vision towers are written over.
//!
//! A device keeps rows of f32 values (or of its compute type) in memory of its own between operations. An operation computes a
//! row to the same bits among any other rows, except on candle's accelerators ([`ComputeDevice::is_batch_invariant`]). Operations
//! may be queued: only reading [`States`], [`Logits`] or attention statistics waits for them.
//!
//! The states of a chunk of a video's temporal grids are rows below each other, grid by grid. A device that is faster with few
//! rows at a time passes them through several operations in parts ([`Ops::rows_at_once`]); attention is computed for a whole
//! chunk.
//!
//! [`ComputeDevice::is_batch_invariant`]: super::ComputeDevice::is_batch_invariant

pub(crate) mod cpu;
mod gpu;
mod tensors;

use std::{collections::BTreeMap, ops::Range};

pub use self::{
    cpu::{CpuOps, WORKSPACE},
    gpu::GpuOps,
    tensors::TensorOps,
};
use crate::{
    CheckpointError, LinearAttention, LinearWeights, Result, Weights,
    attention::{AttentionProbe, AttentionShape, AttentionStats, Mask},
    cache::DeviceCache,
    convolution::{Convolution, Side},
    experts::{Experts, Routing},
    fused::FusedMatrix,
    logits::Logits,
    recurrent::{RecurrentPass, RecurrentStates},
    states::{States, with_slice},
    tower::{Activation, Tap, TowerLayout},
};

/// Why a device refuses a model.
pub const NO_EXPERTS: &str = "a mixture of experts is computed on cpu and gpu only: add --device gpu or cpu";

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
    pub rows: usize,
    /// Number of the model's layers, over which attention is averaged.
    pub layers: usize,
    pub shape: AttentionShape,
    /// Cosines of the rows' angles, `rows × head_dim / 2`.
    pub cos: Vec<f32>,
    pub sin: Vec<f32>,
    /// The slots that each row sees.
    pub mask: &'a Mask,
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

/// The weights of a norm over rows of some width: a layer norm with a bias, else an RMS norm.
#[derive(Debug)]
pub struct Norm<V> {
    /// Values of a row.
    pub width: usize,
    /// One value per value of a row.
    pub weight: V,
    /// One value per value of a row.
    pub bias: Option<V>,
    /// Added to the mean square or the variance.
    pub eps: f32,
    /// Rows that are concatenated in one row of the output.
    pub joined: usize,
}

/// Some rows of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    pub start: usize,
    pub rows: usize,
    /// Rows in all.
    pub of: usize,
}

impl Part {
    pub fn all(rows: usize) -> Self {
        Self { start: 0, rows, of: rows }
    }

    /// The parts of `of` rows, up to `most` (at least 1) at a time.
    pub fn each(of: usize, most: usize) -> impl Iterator<Item = Self> {
        (0..of).step_by(most).map(move |start| Self { start, rows: most.min(of - start), of })
    }

    pub fn range(self) -> Range<usize> {
        self.start..self.start + self.rows
    }
}

/// Rows to which others are added before they are normed.
#[derive(Debug)]
pub struct Residual<'a, R> {
    /// The rows; for a norm of another width they count as rows of that.
    pub x: &'a mut R,
    pub part: Part,
    /// As many rows as the part has.
    pub add: Option<&'a R>,
}

/// Where an operation's output goes.
pub struct Out<'a, D: Ops> {
    pub rows: &'a mut D::Rows,
    /// The matrix that takes them, if one does: the device may store them as that matrix needs them.
    pub next: Option<&'a D::Matrix>,
}

impl<'a, D: Ops> Out<'a, D> {
    /// Rows that a matrix takes.
    pub fn before(next: &'a D::Matrix, rows: &'a mut D::Rows) -> Self {
        Self { rows, next: Some(next) }
    }
}

pub trait Ops: Clone + Send + Sync + Sized + 'static {
    /// A matrix of `outputs × inputs`, perhaps with a bias.
    type Matrix: Send + Sync;
    /// The weights of a norm, or a table of positions.
    type Vector: Send + Sync;
    type Table: Send + Sync;
    /// A choice of columns.
    type Columns: Send + Sync;
    /// The tensors of a layer with linear attention besides its matrices.
    type Linear: Send + Sync;
    type Layout: Send;
    /// The states of all layers with linear attention, and their log.
    type Recurrent: RecurrentStates;
    /// Rows in the device's memory; they take the size of the written rows.
    type Rows: Default + Send;
    /// Keys and values of one sequence.
    type Cache: DeviceCache;
    /// What is kept between the operations of one sequence, and of the pass in progress.
    type Work: Default + Send;

    /// True if layers of experts are computed.
    const COMPUTES_EXPERTS: bool = false;

    /// True if a row's result has the same bits among any other rows.
    fn is_exact(&self) -> bool;

    /// True if attention of heads of this width is computed.
    fn computes(&self, _head_dim: usize) -> bool {
        true
    }

    /// A layer of experts, whose shared expert is the last of `pairs`, after those of the routing. Fails if the device does not
    /// compute it, and as [`Ops::matrix`].
    fn experts(
        &self,
        routing: Routing,
        router: &FusedMatrix,
        mut pairs: Vec<[FusedMatrix; 2]>,
        checkpoint: &dyn Weights,
    ) -> Loaded<Experts<Self::Matrix>> {
        let load = |[gate_up, down]: &[FusedMatrix; 2]| {
            Ok([self.matrix(gate_up, checkpoint)?, self.matrix(down, checkpoint)?])
        };
        let shared = pairs.split_off(routing.experts.min(pairs.len()));
        let layer = Experts {
            routing,
            router: self.matrix(router, checkpoint)?,
            routed: Self::arrange(pairs).iter().map(load).collect::<Loaded<_>>()?,
            shared: shared.first().map(load).transpose()?,
        };
        match Self::experts_problem(&layer) {
            Some(problem) => Err(CheckpointError::tensor(router.name(), &problem)),
            None => Ok(layer),
        }
    }

    /// The matrices of experts, as the device keeps them: one pair for each, or one for all, below each other.
    fn arrange(pairs: Vec<[FusedMatrix; 2]>) -> Vec<[FusedMatrix; 2]> {
        pairs
    }

    /// Why the device does not compute a layer of experts: `None` if it does.
    fn experts_problem(_: &Experts<Self::Matrix>) -> Option<String> {
        None
    }

    /// What the speed of kernels depends on that are chosen by measurement: the device and its driver. `None` if none are.
    fn kernel_device(&self) -> Option<String> {
        None
    }

    /// Take the kernels that were measured as the faster ones earlier, and measure those for other types of these matrices. Returns
    /// what is new: for each weight type, the most rows of a pass for which the kernel for few rows is taken.
    fn choose_kernels(
        &self,
        _known: &BTreeMap<String, usize>,
        _matrices: &[&Self::Matrix],
    ) -> Result<BTreeMap<String, usize>> {
        Ok(BTreeMap::new())
    }

    /// A matrix of at most the first outputs of another one, on the same memory, if the device has such.
    fn first_outputs(_matrix: &Self::Matrix, _outputs: usize) -> Option<Self::Matrix> {
        None
    }

    /// Rows of a prefill pass, which fill the device.
    fn chunk(&self) -> usize;

    /// Patches of a chunk whose states have `hidden` values. A chunk has at least one temporal grid.
    fn chunk_patches(&self, hidden: usize) -> usize;

    /// Rows of `width` values that pass several operations one after the other, at least 1.
    fn rows_at_once(&self, width: usize) -> usize;

    /// The same device for the first and the last matrices of a tower. They are a sixtieth of the work, and 8 bits there would
    /// cost as much precision as in all layers between them.
    fn for_ends(&self) -> Self;

    fn matrix(&self, list: &FusedMatrix, checkpoint: &dyn Weights) -> Loaded<Self::Matrix>;

    /// Load a matrix of a tower, which on an accelerator has the compute type. With `pad`, a device may add outputs that are zero
    /// to each tensor, if it also pads the inputs of the next matrix.
    fn tower_matrix(&self, list: &FusedMatrix, pad: bool, checkpoint: &dyn Weights) -> Loaded<Self::Matrix>;

    /// The weights of a norm or rows of positions, with the tensor's name for errors.
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

    /// As [`Ops::embed`], before the next operations of a sequence.
    fn embed_in(&self, _: &mut Self::Work, table: &Self::Table, ids: &[u32]) -> Result<States> {
        self.embed(table, ids)
    }

    fn layout(&self, layout: TowerLayout) -> Result<Self::Layout>;

    /// Positions from a table of rows of `width` values: row `r` is the sum of the `r`-th taps of all lists, which are equally
    /// long. There is at least one list.
    fn interpolate(
        &self,
        work: &mut Self::Work,
        table: &Self::Vector,
        width: usize,
        taps: &[Vec<Tap>],
    ) -> Result<Self::Vector>;

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

    /// `out` = the patches of a part, in the layout's order. `patches` are the chunk's, grid by grid.
    fn patches(
        &self,
        work: &mut Self::Work,
        layout: &Self::Layout,
        patches: &[f32],
        part: Part,
        out: Out<'_, Self>,
    ) -> Result<()>;

    /// `out` = a part of `rows`.
    fn part(&self, work: &mut Self::Work, rows: &Self::Rows, part: Part, out: Out<'_, Self>) -> Result<()>;

    /// For a part of `x`: `x += add`, then `out = x / sqrt(mean(x²) + eps) · weight`, or with a bias the layer norm of `x`.
    fn norm(
        &self,
        work: &mut Self::Work,
        residual: Residual<'_, Self::Rows>,
        norm: &Norm<Self::Vector>,
        out: Out<'_, Self>,
    ) -> Result<()>;

    /// `W x + b` of all rows of `x`, written to a part of `out`.
    fn product(
        &self,
        work: &mut Self::Work,
        matrix: &Self::Matrix,
        x: &Self::Rows,
        part: Part,
        out: &mut Self::Rows,
    ) -> Result<()>;

    /// For a matrix of gates and as many values: `out = silu(gates) ∘ values`.
    fn gated(
        &self,
        work: &mut Self::Work,
        matrix: &Self::Matrix,
        x: &Self::Rows,
        out: Out<'_, Self>,
    ) -> Result<()>;

    /// `out` = a feed-forward layer of experts: for each row the sum of the results of its experts, by their weights (see
    /// [`Experts`]). Rows are as the layer's router takes them. Returns the number of experts that were read, without the
    /// shared one, if the host knows it.
    fn mix_experts(
        &self,
        _work: &mut Self::Work,
        _layer: &Experts<Self::Matrix>,
        _x: &Self::Rows,
        _out: &mut Self::Rows,
    ) -> Result<Option<usize>> {
        crate::bail!("{NO_EXPERTS}")
    }

    /// `out` = an activation function of `x`, which may be overwritten.
    fn activate(
        &self,
        work: &mut Self::Work,
        activation: Activation,
        x: &mut Self::Rows,
        out: Out<'_, Self>,
    ) -> Result<()>;

    /// Norm the queries and keys of `qkv` (`rows × (heads + 2 · kv_heads) · head_dim`) in each head, if the model does, rotate
    /// them, and write keys and values to the slots after those in use.
    fn store(
        &self,
        work: &mut Self::Work,
        pass: &PassSpec<'_>,
        qkv: &mut Self::Rows,
        norms: Option<HeadNorms<'_, Self::Vector>>,
        cache: &mut Self::Cache,
        layer: usize,
    ) -> Result<()>;

    /// `out` (`rows × heads · head_dim`) = attention of the rotated queries over the visible slots of a layer.
    fn attend(
        &self,
        work: &mut Self::Work,
        pass: &PassSpec<'_>,
        qkv: &Self::Rows,
        cache: &Self::Cache,
        layer: usize,
        out: Out<'_, Self>,
    ) -> Result<()>;

    /// `out` (`rows × hidden`) = softmax attention of the rotated queries and keys of `qkv` (`rows × 3 hidden`) among the rows of
    /// a temporal grid, or with `windows` within a window.
    fn attend_in_grids(
        &self,
        work: &mut Self::Work,
        layout: &Self::Layout,
        qkv: &Self::Rows,
        grids: usize,
        windows: bool,
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

    /// `x` = the chosen columns of other rows.
    fn choose(
        &self,
        work: &mut Self::Work,
        from: &Self::Rows,
        columns: &Self::Columns,
        x: &mut Self::Rows,
    ) -> Result<()>;

    /// `x ← sigmoid(gates) ∘ x`.
    fn gate_by(&self, work: &mut Self::Work, gates: &Self::Rows, x: Out<'_, Self>) -> Result<()>;

    /// `out` = one of a sublayer's two [convolutions](crate::convolution) of the rows of a block, `corrections` being those of
    /// the same rows (`rows × 2 · taps · width / group`).
    fn convolve(
        &self,
        work: &mut Self::Work,
        x: &Self::Rows,
        corrections: &Self::Rows,
        convolution: &Convolution<Self::Vector>,
        side: Side,
        out: Out<'_, Self>,
    ) -> Result<()>;

    /// A part of `x` `+= add`.
    fn add(&self, work: &mut Self::Work, x: &mut Self::Rows, part: Part, add: &Self::Rows) -> Result<()>;

    /// Add positions to the rows of each grid in `x`.
    fn add_positions(
        &self,
        work: &mut Self::Work,
        layout: &Self::Layout,
        x: &mut Self::Rows,
        positions: &Self::Vector,
    ) -> Result<()>;

    /// `x` = some columns of other rows.
    fn columns(
        &self,
        work: &mut Self::Work,
        from: &Self::Rows,
        columns: Range<usize>,
        x: &mut Self::Rows,
    ) -> Result<()>;

    /// `x +=` some columns of other rows, which are as wide as `x`.
    fn add_columns(
        &self,
        work: &mut Self::Work,
        x: &mut Self::Rows,
        from: &Self::Rows,
        columns: Range<usize>,
    ) -> Result<()>;

    /// A copy of rows that outlives the pass.
    fn keep(&self, work: &mut Self::Work, rows: &Self::Rows) -> Result<States>;

    /// As [`Ops::keep`], where the rows themselves are not needed any more.
    fn take(&self, work: &mut Self::Work, rows: &mut Self::Rows) -> Result<States> {
        self.keep(work, rows)
    }

    /// End a pass: its slots are in use.
    fn finish(
        &self,
        work: &mut Self::Work,
        pass: &PassSpec<'_>,
        cache: &mut Self::Cache,
    ) -> Result<Option<AttentionStats>>;

    /// `out` = the rows of `grids` temporal grids that the layout's taps make of `rows`.
    fn blend(
        &self,
        work: &mut Self::Work,
        layout: &Self::Layout,
        rows: &Self::Rows,
        grids: usize,
        out: &mut Self::Rows,
    ) -> Result<()>;

    /// The result of `grids` temporal grids, made of each of `blocks` by the layout's taps; the blocks' results are next to
    /// each other in its rows. There is at least one block.
    fn result(
        &self,
        work: &mut Self::Work,
        layout: &Self::Layout,
        blocks: &[Self::Rows],
        grids: usize,
    ) -> Result<States>;

    /// `W x + b` of states.
    fn project(&self, work: &mut Self::Work, matrix: &Self::Matrix, states: &States) -> Result<States>;

    /// The head's logits of states.
    fn logits(&self, work: &mut Self::Work, head: &Self::Matrix, states: &States) -> Result<Logits>;

    /// Rows concatenated, `rows × (a + b)`.
    fn beside(&self, a: &States, b: &States) -> Result<States>;

    /// `x / sqrt(mean(x²) + eps) · weight` of states, before the next operations of a sequence.
    fn normed(&self, _: &mut Self::Work, states: &States, weight: &[f32], eps: f32) -> Result<States> {
        let (rows, width) = states.shape();
        let mut normed = Vec::with_capacity(rows * width);
        with_slice(states, |values| {
            for x in values.chunks_exact(width.max(1)) {
                let mean = x.iter().map(|value| value * value).sum::<f32>() / x.len().max(1) as f32;
                let scale = 1.0 / (mean + eps).sqrt();
                normed.extend(x.iter().zip(weight).map(|(value, weight)| value * scale * weight));
            }
        })?;
        States::new(normed, width)
    }

    /// Wait until all work that was queued for a sequence is done.
    fn synchronize(&self, work: &mut Self::Work) -> Result<()>;

    /// Execute queued operations, so that progress can be reported.
    fn catch_up(&self, _: &mut Self::Work) -> Result<()> {
        Ok(())
    }
}
