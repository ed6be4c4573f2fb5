//! The tensors of GGUF files: used where they are mapped, or widened to f32.
//!
//! Matrices are not read while they are loaded, so their values are not checked; vectors and towers are.

use super::*;
use crate::gguf::{FileValues, GgufTensor, NamedTensor, RowLayout};
use specreel_tensor::cpu::{
    table::Values,
    thread_pool::{DisjointSliceMut, ThreadPool},
};

/// Values that are widened at a time.
const CHUNK: usize = 1 << 18;

impl Checkpoint {
    /// A tensor of GGUF files with this shape; `None` if the checkpoint is not GGUF.
    /// Errors: if the tensor is missing or has another shape.
    pub(super) fn find_mapped(
        &self,
        name: &str,
        shape: &[usize],
    ) -> Result<Option<&NamedTensor>, CheckpointError> {
        if self.files.gguf().is_none() {
            return Ok(None);
        }
        let tensor = self.find_named(name).ok_or_else(|| self.missing(name))?;
        self.check_shape(name, &tensor.shape, shape)?;
        Ok(Some(tensor))
    }

    /// The values of a part of a tensor: mapped, or copied in the order of its rows.
    pub(super) fn stored(&self, tensor: &NamedTensor, part: &gguf::GgufTensor) -> Option<Values> {
        let RowLayout::Pairs { .. } = tensor.layout else { return tensor.file.values(part) };
        let rows = part.shape[0];
        let bytes = reordered(tensor.file.raw(part), rows, |row| tensor.layout.source(row, rows));
        Values::copied(part.kind, &bytes)
    }

    /// A tensor's values in the file's type.
    pub(super) fn native_mapped(&self, name: &str, tensor: &NamedTensor) -> Result<Values, CheckpointError> {
        if let ([part], RowLayout::Rows, FileValues::Values) =
            (&tensor.parts[..], tensor.layout, tensor.stored)
            && let Some(values) = self.stored(tensor, part)
        {
            self.read.fetch_add(1, Ordering::Relaxed);
            self.report()?;
            return Ok(values);
        }
        self.widen_all(name, tensor).map(|values| Values::F32(values.into()))
    }

    pub(super) fn widen_all(&self, name: &str, tensor: &NamedTensor) -> Result<Vec<f32>, CheckpointError> {
        let mut values = vec![0f32; tensor.parts.iter().map(GgufTensor::values).sum()];
        let place = DisjointSliceMut::new(&mut values);
        let mut first = 0;
        for part in &tensor.parts {
            self.report()?;
            let (count, refused) = (part.values(), Mutex::new(None));
            ThreadPool::global().run(count.div_ceil(CHUNK), &|unit| {
                let start = unit * CHUNK;
                let mut wide = Vec::with_capacity(CHUNK);
                if let Some(values) = tensor.file.values(part) {
                    values.widen(start..(start + CHUNK).min(count), &mut wide);
                }
                wide.iter_mut().for_each(|value| *value = tensor.stored.value(*value));
                if let Some(i) = wide.iter().position(|value| !value.is_finite()) {
                    let mut refused = refused.lock().unwrap_or_else(PoisonError::into_inner);
                    refused.get_or_insert((first + start + i, wide[i]));
                }
                // SAFETY: each unit has values of its own.
                unsafe { place.slice(first + start, wide.len()) }.copy_from_slice(&wide);
            });
            if let Some((i, value)) = refused.into_inner().unwrap_or_else(PoisonError::into_inner) {
                let problem = format!("value {i} is {value}, in {}", tensor.file.path().display());
                return Err(CheckpointError::tensor(name, &problem));
            }
            first += count;
        }
        self.read.fetch_add(1, Ordering::Relaxed);
        self.report()?;
        Ok(match tensor.layout {
            RowLayout::Rows => values,
            RowLayout::Frames => interleaved(&values, &tensor.shape),
            RowLayout::Pairs { .. } => {
                let rows = tensor.shape[0];
                reordered(&values, rows, |row| tensor.layout.source(row, rows))
            }
        })
    }
}

/// The rows of a matrix in another order: each is the row `from` it.
fn reordered<T: Copy>(values: &[T], rows: usize, from: impl Fn(usize) -> usize) -> Vec<T> {
    let width = values.len() / rows.max(1);
    (0..rows).flat_map(|row| &values[from(row) * width..][..width]).copied().collect()
}

/// Kernels of the frames, one after the other, as one kernel `[outputs, channels, frames, height, width]`.
fn interleaved(values: &[f32], shape: &[usize]) -> Vec<f32> {
    let frames = shape[2];
    let plane: usize = shape[3..].iter().product();
    let planes = shape[0] * shape[1];
    let mut out = Vec::with_capacity(values.len());
    for at in 0..planes {
        for frame in 0..frames {
            let start = (frame * planes + at) * plane;
            out.extend_from_slice(&values[start..start + plane]);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::interleaved;

    #[test]
    fn kernels_of_frames_are_interleaved() {
        // Two outputs, one channel, two frames, one row of two pixels.
        let frames = [[0., 1., 2., 3.], [10., 11., 12., 13.]].concat();
        assert_eq!(interleaved(&frames, &[2, 1, 2, 1, 2]), [0., 1., 10., 11., 2., 3., 12., 13.]);
    }
}
