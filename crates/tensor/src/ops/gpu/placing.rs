//! Rows from other memory: looked up, moved, and multiplied outside of a pass.

use std::ops::Range;

use super::{
    GpuOps,
    work::{GpuWork, given},
};
use crate::{
    Result,
    gpu::{
        self, Buffer, Matrix, Rows, Table,
        buffer::grown,
        states::{GpuRows, RowSource, SharedStream, below},
    },
    states::{States, with_slice},
};

impl GpuOps {
    /// The memory of states, as rows from the first of its memory on; and the states' own rows among them. What computes them
    /// runs before `stream`.
    pub(super) fn place(&self, stream: &SharedStream, states: &States) -> Result<(Rows, Range<usize>)> {
        let rows = match states {
            States::Gpu(rows) => rows.moved_to(stream)?,
            States::Host(_) | States::Candle(_) => {
                let width = states.shape().1;
                with_slice(states, |values| below(stream, &[RowSource::Host(values)], width))??
            }
        };
        let (memory, start) = rows.place_for(stream)?;
        let (count, width) = rows.shape();
        let first = start as usize / 4 / width.max(1);
        Ok((Rows::of(memory.clone(), first + count, width), first..first + count))
    }

    pub(super) fn look_up(
        &self,
        stream: &SharedStream,
        ids: &mut Option<Buffer>,
        table: &Table,
        wanted: &[u32],
        out: &mut Rows,
    ) -> gpu::Result<()> {
        let buffer = grown(ids, &self.gpu, 4 * wanted.len().max(1).next_power_of_two())?;
        let mut stream = stream.lock();
        stream.write(buffer, 0, bytemuck::cast_slice(wanted))?;
        table.gather(&mut stream, buffer, wanted.len(), out)
    }

    pub(super) fn project_rows(
        &self,
        work: &mut GpuWork,
        matrix: &Matrix,
        states: &States,
    ) -> Result<GpuRows> {
        let stream = work.stream(&self.gpu);
        let (rows, range) = self.place(&stream, states)?;
        let count = range.len();
        let mut out = work.rows(count, matrix.outputs());
        matrix.forward_range(&mut stream.lock(), &rows, range, &mut out, &mut work.scratch)?;
        Ok(given(&stream, &mut work.given, &mut out)?)
    }
}
