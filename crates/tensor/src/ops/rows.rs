//! What all models do on a device: loading matrices, and operations on rows.

use std::ops::Range;

use crate::{
    CheckpointError, Gate, Result, Weights,
    convolution::{Convolution, Side},
    fused::FusedMatrix,
    states::{States, with_slice},
};

/// What is loaded from a checkpoint.
pub type Loaded<T> = std::result::Result<T, CheckpointError>;

/// Weights in a device's memory.
pub trait HeldWeights: Send + Sync {
    fn bytes(&self) -> usize;

    /// Bytes that are parts of mapped files.
    fn mapped_bytes(&self) -> usize {
        0
    }
}

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

/// Refuse another gate than the one that a device computes in some place.
#[cfg(any(feature = "gpu", feature = "candle"))]
pub(super) fn refuse_gate(gate: Gate, computed: Gate) -> Result<()> {
    if gate == computed { Ok(()) } else { crate::bail!("{gate:?} gates are computed on the CPU only") }
}

/// Some rows of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowPart {
    pub start: usize,
    pub rows: usize,
    /// Rows in all.
    pub of: usize,
}

impl RowPart {
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
    pub part: RowPart,
    /// As many rows as the part has.
    pub add: Option<&'a R>,
}

/// Where an operation's output goes.
pub struct Out<'a, D: RowOps> {
    pub rows: &'a mut D::Rows,
    /// The matrix that takes them, if one does: the device may store them as that matrix needs them.
    pub next: Option<&'a D::Matrix>,
}

impl<'a, D: RowOps> Out<'a, D> {
    /// Rows that a matrix takes.
    pub fn before(next: &'a D::Matrix, rows: &'a mut D::Rows) -> Self {
        Self { rows, next: Some(next) }
    }
}

/// What all models do on a device.
pub trait RowOps: Clone + Send + Sync + Sized + 'static {
    /// A matrix of `outputs × inputs`, perhaps with a bias.
    type Matrix: HeldWeights;
    /// The weights of a norm, or a table of positions.
    type Vector: Send + Sync;
    /// A choice of columns.
    type Columns: Send + Sync;
    /// Rows in the device's memory; they take the size of the written rows.
    type Rows: Default + Send;
    /// What is kept between the operations of one sequence, and of the pass in progress.
    type Work: Default + Send;

    fn matrix(&self, list: &FusedMatrix, checkpoint: &dyn Weights) -> Loaded<Self::Matrix>;

    /// The weights of a norm or rows of positions, with the tensor's name for errors.
    fn vector(&self, name: &str, values: Vec<f32>) -> Loaded<Self::Vector>;

    /// Columns by number, in the order in which they are chosen.
    fn chosen(&self, columns: Vec<u32>) -> Loaded<Self::Columns>;

    /// `out` = a part of `rows`.
    fn part(&self, work: &mut Self::Work, rows: &Self::Rows, part: RowPart, out: Out<'_, Self>)
    -> Result<()>;

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
        part: RowPart,
        out: &mut Self::Rows,
    ) -> Result<()>;

    /// For a matrix of gates and as many values: `out = gate(gates) ∘ values`. Fails if the device does not compute the gate.
    fn gated(
        &self,
        work: &mut Self::Work,
        matrix: &Self::Matrix,
        gate: Gate,
        x: &Self::Rows,
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

    /// `x ← gate(gates) ∘ x`. Fails if the device does not compute the gate.
    fn gate_by(&self, work: &mut Self::Work, gates: &Self::Rows, gate: Gate, x: Out<'_, Self>) -> Result<()>;

    /// `x ← factor · x`.
    fn scale(&self, work: &mut Self::Work, x: &mut Self::Rows, factor: f32) -> Result<()>;

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
    fn add(&self, work: &mut Self::Work, x: &mut Self::Rows, part: RowPart, add: &Self::Rows) -> Result<()>;

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

    /// As [`RowOps::keep`], where the rows themselves are not needed any more.
    fn take(&self, work: &mut Self::Work, rows: &mut Self::Rows) -> Result<States> {
        self.keep(work, rows)
    }

    /// `W x + b` of states.
    fn project(&self, work: &mut Self::Work, matrix: &Self::Matrix, states: &States) -> Result<States>;

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
}
