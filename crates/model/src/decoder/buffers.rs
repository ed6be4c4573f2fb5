//! Memory of passes.

use super::convolved::ConvolvedRows;
use specreel_tensor::ops::RowOps;

/// Rows in a device's memory that passes use again, so that nothing is allocated in the loop.
pub(super) struct PassBuffers<D: RowOps> {
    pub(super) work: D::Work,
    /// Input rows with DeepStack levels.
    pub(super) wide: D::Rows,
    pub(super) x: D::Rows,
    pub(super) normed: D::Rows,
    pub(super) qkv: D::Rows,
    /// What enters attention before its columns are put in order, and the gates among it.
    pub(super) mixed: D::Rows,
    pub(super) gates: D::Rows,
    pub(super) attended: D::Rows,
    /// As `attended`, of layers with linear attention, whose rows have another width.
    pub(super) answered: D::Rows,
    pub(super) projected: D::Rows,
    pub(super) gated: D::Rows,
    /// What a sublayer adds, after a norm.
    pub(super) settled: D::Rows,
    /// What is added in each layer.
    pub(super) added: D::Rows,
    pub(super) convolved: ConvolvedRows<D>,
}

impl<D: RowOps> Default for PassBuffers<D> {
    fn default() -> Self {
        Self {
            work: D::Work::default(),
            wide: D::Rows::default(),
            x: D::Rows::default(),
            normed: D::Rows::default(),
            qkv: D::Rows::default(),
            mixed: D::Rows::default(),
            gates: D::Rows::default(),
            attended: D::Rows::default(),
            answered: D::Rows::default(),
            projected: D::Rows::default(),
            gated: D::Rows::default(),
            settled: D::Rows::default(),
            added: D::Rows::default(),
            convolved: ConvolvedRows::default(),
        }
    }
}
