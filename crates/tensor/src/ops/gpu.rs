//! The operations of models on a GPU.
//!
//! Operations are recorded and not waited for: the first read submits them, together with the logits that were recorded after a
//! pass. Only requested values come back to host memory. Widths that are not a multiple of the block are padded with zeros in towers, as on the
//! CPU.

mod decoder;
mod grids;
mod parts;
mod placing;
mod tower;
mod work;

use std::{ops::Range, sync::Arc};

use self::{
    parts::{copy_back, copy_part, fit, with_part},
    work::{GpuWork, again, given},
};
use super::{HeldWeights, Loaded, Norm, Out, Residual, RowOps, RowPart, rows::refuse_gate};
use crate::{
    CheckpointError, Gate, KvType, Result, WeightType, Weights,
    convolution::{Convolution, Side},
    fused::FusedMatrix,
    gpu::{
        Buffer, Gpu, Matrix, Rows,
        columns::{self, Columns, copy_columns},
        elements::{self, Addend},
        rows::filled,
        states::{self, SharedStream, beside},
    },
    states::States,
};

/// A GPU, with weights and keys and values of some types.
#[derive(Clone, Debug)]
pub struct GpuOps {
    gpu: Gpu,
    dtype: WeightType,
    kv_type: KvType,
    /// For rows that no sequence computes.
    stream: SharedStream,
}

impl GpuOps {
    /// Weights in `dtype`, keys and values in `kv_type`; neither is `Auto`.
    pub fn new(gpu: &Gpu, dtype: WeightType, kv_type: KvType) -> Self {
        Self { gpu: gpu.clone(), dtype, kv_type, stream: SharedStream::new(gpu) }
    }
}

impl HeldWeights for Arc<Matrix> {
    fn bytes(&self) -> usize {
        Matrix::bytes(self) as usize
    }
}

impl RowOps for GpuOps {
    type Matrix = Arc<Matrix>;
    type Vector = Buffer;
    type Columns = (Buffer, usize);
    type Rows = Rows;
    type Work = GpuWork;

    fn matrix(&self, list: &FusedMatrix, checkpoint: &dyn Weights) -> Loaded<Arc<Matrix>> {
        Matrix::load(&self.gpu, list, checkpoint, self.dtype).map(Arc::new)
    }

    fn vector(&self, name: &str, values: Vec<f32>) -> Loaded<Buffer> {
        let uploaded = self.gpu.upload(bytemuck::cast_slice(&values));
        uploaded.map_err(|e| CheckpointError::tensor(name, &e.to_string()))
    }

    fn chosen(&self, columns: Vec<u32>) -> Loaded<(Buffer, usize)> {
        let uploaded = self.gpu.upload(bytemuck::cast_slice(&columns));
        Ok((uploaded.map_err(|e| CheckpointError::tensor("chosen columns", &e.to_string()))?, columns.len()))
    }

    fn part(&self, work: &mut GpuWork, rows: &Rows, part: RowPart, out: Out<'_, Self>) -> Result<()> {
        let stream = work.stream(&self.gpu);
        let stream = &mut stream.lock();
        copy_part(stream, rows, part, out.rows)?;
        Ok(fit(stream, out.rows, out.next, &mut work.tower.spare)?)
    }

    fn norm(
        &self,
        work: &mut GpuWork,
        Residual { x, part, add }: Residual<'_, Rows>,
        norm: &Norm<Buffer>,
        Out { rows: out, next }: Out<'_, Self>,
    ) -> Result<()> {
        let (rows, width) = (x.rows(), x.width());
        if out.memory().is_none()
            && let Some(buffer) = again(&mut work.given, x.bytes())
        {
            *out = Rows::of(buffer, rows, width);
        }
        let stream = work.stream(&self.gpu);
        let (stream, scratch, spare) = (&mut stream.lock(), &mut work.scratch, &mut work.tower.spare);
        let Norm { weight, eps, joined, .. } = norm;
        x.reshape(rows * width / norm.width, norm.width);
        with_part(stream, x, part, spare, add.is_some(), |stream, x| match (&norm.bias, next) {
            (None, Some(next)) => next.norm_before(stream, x, add, weight, *eps, out, scratch),
            (bias, _) => elements::norm(stream, x, add, (weight, bias.as_ref()), *eps, out),
        })?;
        x.reshape(rows, width);
        out.reshape(part.rows / joined, norm.width * joined);
        Ok(fit(stream, out, next, spare)?)
    }

    fn product(
        &self,
        work: &mut GpuWork,
        matrix: &Arc<Matrix>,
        x: &Rows,
        part: RowPart,
        out: &mut Rows,
    ) -> Result<()> {
        let stream = work.stream(&self.gpu);
        let (stream, scratch, spare) = (&mut stream.lock(), &mut work.scratch, &mut work.tower.spare);
        if part.rows == part.of {
            return Ok(matrix.forward(stream, x, part.rows, out, scratch)?);
        }
        matrix.forward(stream, x, part.rows, spare, scratch)?;
        Ok(copy_back(stream, spare, part, out)?)
    }

    fn gated(
        &self,
        work: &mut GpuWork,
        matrix: &Arc<Matrix>,
        gate: Gate,
        x: &Rows,
        out: Out<'_, Self>,
    ) -> Result<()> {
        refuse_gate(gate, Gate::Silu)?;
        let stream = work.stream(&self.gpu);
        let (stream, scratch) = (&mut stream.lock(), &mut work.scratch);
        let made = match out.next {
            Some(next) => matrix.forward_gated_for(next, stream, x, x.rows(), out.rows, scratch),
            None => matrix.forward_gated(stream, x, x.rows(), out.rows, scratch),
        };
        Ok(made?)
    }

    fn choose(
        &self,
        work: &mut GpuWork,
        from: &Rows,
        (columns, width): &(Buffer, usize),
        x: &mut Rows,
    ) -> Result<()> {
        Ok(columns::choose(&mut work.stream(&self.gpu).lock(), from, columns, *width, x)?)
    }

    fn gate_by(&self, work: &mut GpuWork, gates: &Rows, gate: Gate, x: Out<'_, Self>) -> Result<()> {
        refuse_gate(gate, Gate::Sigmoid)?;
        Ok(columns::gate(&mut work.stream(&self.gpu).lock(), gates, x.rows)?)
    }

    fn scale(&self, _: &mut GpuWork, _: &mut Rows, _: f32) -> Result<()> {
        crate::bail!("rows are scaled on the CPU only")
    }

    fn convolve(
        &self,
        work: &mut GpuWork,
        x: &Rows,
        corrections: &Rows,
        convolution: &Convolution<Buffer>,
        side: Side,
        out: Out<'_, Self>,
    ) -> Result<()> {
        let stream = work.stream(&self.gpu);
        let stream = &mut stream.lock();
        elements::convolve(stream, x, corrections, convolution, side, out.rows)?;
        Ok(fit(stream, out.rows, out.next, &mut work.tower.spare)?)
    }

    fn add(&self, work: &mut GpuWork, x: &mut Rows, part: RowPart, add: &Rows) -> Result<()> {
        let stream = work.stream(&self.gpu);
        let (stream, spare) = (&mut stream.lock(), &mut work.tower.spare);
        let added =
            with_part(stream, x, part, spare, true, |stream, x| elements::add(stream, x, Addend::Rows(add)));
        Ok(added?)
    }

    fn columns(&self, work: &mut GpuWork, from: &Rows, columns: Range<usize>, x: &mut Rows) -> Result<()> {
        x.reserve(&self.gpu, from.rows(), columns.len())?;
        Ok(columns::between(&mut work.stream(&self.gpu).lock(), from, columns, x, false)?)
    }

    fn add_columns(
        &self,
        work: &mut GpuWork,
        x: &mut Rows,
        from: &Rows,
        columns: Range<usize>,
    ) -> Result<()> {
        Ok(columns::between(&mut work.stream(&self.gpu).lock(), from, columns, x, true)?)
    }

    fn keep(&self, work: &mut GpuWork, rows: &Rows) -> Result<States> {
        let (from, stream) = (filled(rows)?, work.stream(&self.gpu));
        let buffer = match again(&mut work.given, rows.bytes()) {
            Some(buffer) => buffer,
            None => self.gpu.buffer(rows.bytes())?,
        };
        stream.lock().copy(from, 0, &buffer, 0, rows.bytes())?;
        let mut kept = Rows::of(buffer, rows.rows(), rows.width());
        Ok(States::Gpu(given(&stream, &mut work.given, &mut kept)?))
    }

    fn take(&self, work: &mut GpuWork, rows: &mut Rows) -> Result<States> {
        Ok(States::Gpu(given(&work.stream(&self.gpu), &mut work.given, rows)?))
    }

    fn project(&self, work: &mut GpuWork, matrix: &Arc<Matrix>, states: &States) -> Result<States> {
        Ok(States::Gpu(self.project_rows(work, matrix, states)?))
    }

    fn beside(&self, a: &States, b: &States) -> Result<States> {
        let host = [a.in_host_memory()?, b.in_host_memory()?];
        let part = |at: usize| match &host[at] {
            Some(values) => Some(states::RowSource::Host(values)),
            None => [a, b][at].on_gpu().map(states::RowSource::Device),
        };
        let (Some(left), Some(right)) = (part(0), part(1)) else {
            crate::bail!("concatenated rows are on no device");
        };
        // The stream on which one of them is computed: often nothing has to be submitted.
        let stream =
            [a, b].into_iter().find_map(|rows| Some(rows.on_gpu()?.stream())).unwrap_or(&self.stream);
        Ok(States::Gpu(beside(stream, [left, right], [a.shape().1, b.shape().1])?))
    }

    fn normed(&self, work: &mut GpuWork, states: &States, weight: &[f32], eps: f32) -> Result<States> {
        let stream = work.stream(&self.gpu);
        let (from, range) = self.place(&stream, states)?;
        let (rows, width) = states.shape();
        let (mut x, mut out) = (work.rows(rows, width), work.rows(rows, width));
        let weight = self.gpu.upload(bytemuck::cast_slice(weight))?;
        {
            let mut stream = stream.lock();
            let from = Columns { buffer: filled(&from)?, first: (range.start * width) as u64, stride: width };
            let to = Columns { buffer: x.reserve(&self.gpu, rows, width)?, first: 0, stride: width };
            copy_columns(&mut stream, from, to, rows, width, false)?;
            elements::norm(&mut stream, &mut x, None, (&weight, None), eps, &mut out)?;
        }
        given(&stream, &mut work.given, &mut x)?;
        Ok(States::Gpu(given(&stream, &mut work.given, &mut out)?))
    }

    fn synchronize(&self, work: &mut GpuWork) -> Result<()> {
        Ok(work.stream(&self.gpu).lock().wait()?)
    }
}

#[cfg(test)]
mod tests;
