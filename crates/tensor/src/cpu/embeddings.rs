//! The embedding table, products of states, and what is kept between passes.

use crate::Result;

use super::{attention::ProbedLayer, forms::QuantizedRows, linear::Linear, table::Table};
use crate::states::{States, with_slice};

/// Buffers that passes use again.
#[derive(Default)]
pub struct CpuWork {
    pub(super) probed: ProbedLayer,
    pub(super) quantized: QuantizedRows,
}

/// The embedding table.
pub struct Embeddings {
    pub(super) table: Table,
    /// The head is in the same memory.
    pub(super) shared: bool,
}

/// Append the rows of ids.
pub(super) fn look_up(table: &Embeddings, ids: &[u32], rows: &mut Vec<f32>) -> Result<()> {
    for &id in ids {
        if !table.table.row(id, rows) {
            crate::bail!("token id {id} is outside of the embedding table");
        }
    }
    Ok(())
}

/// `W x + b` of states.
pub(super) fn product(work: &mut CpuWork, matrix: &Linear, states: &States) -> Result<Vec<f32>> {
    let rows = states.rows();
    let mut out = vec![0f32; rows * matrix.outputs()];
    with_slice(states, |x| matrix.forward(x, rows, &mut out, &mut work.quantized))??;
    Ok(out)
}
