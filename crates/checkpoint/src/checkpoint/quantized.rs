//! Reading quantized matrices: their scales at once, their codes some rows at a time.

use super::read::{ReadBuffers, TakeBytes, combined, in_parallel, rows_per_unit};
use super::*;
use crate::quantized::{FileTensor, QuantizedMatrix, unpack::Unpack};
use specreel_tensor::weights::TakeRows;

/// Bytes that a thread reads at a time of a tensor that is kept whole.
const CHUNK: usize = 1 << 19;

impl Checkpoint {
    /// Call `take` with the index of the first value and the values of each unit of rows. Fails for values that are not finite.
    /// Returns a hash of the bytes of all tensors that the matrix is stored in.
    pub(super) fn unpacked(
        &self,
        name: &str,
        matrix: &QuantizedMatrix,
        take: TakeRows<'_>,
    ) -> Result<u64, CheckpointError> {
        let mut hashes = Vec::new();
        let unpack = self.unpack(matrix, &mut hashes)?;
        let path = &self.shards[matrix.codes.shard].path;
        let unit = rows_per_unit(unpack.inputs);
        let rows = |first: usize, bytes: &[u8], values: &mut Vec<f32>| {
            let count = unit.min(unpack.rows - first);
            values.resize(count * unpack.inputs, 0.0);
            unpack.rows(first, bytes, values);
            let first = first * unpack.inputs;
            match values.iter().position(|value| !value.is_finite()) {
                Some(at) => Err(format!("value {} is {}, in {}", first + at, values[at], path.display())),
                None => take(first, values),
            }
            .map_err(|problem| CheckpointError::tensor(name, &problem))
        };
        match unpack.codes.row_bytes(unpack.inputs) {
            Some(row) => {
                hashes.push(self.part_chunks(&matrix.codes, unit * row, &|at, bytes, _, values| {
                    rows(at / row, bytes, values)
                })?);
            }
            // Outputs lie across all of it.
            None => {
                let (bytes, hash) = self.whole(&matrix.codes)?;
                hashes.push(hash);
                in_parallel(unpack.rows.div_ceil(unit), &|index, ReadBuffers { values, .. }| {
                    self.report()?;
                    rows(index * unit, &bytes, values)
                })?;
            }
        }
        self.read.fetch_add(1, Ordering::Relaxed);
        self.report()?;
        Ok(combined(&hashes))
    }

    /// A hash of the bytes of all tensors that a matrix is stored in, as [`Checkpoint::unpacked`] returns it.
    pub(super) fn quantized_hash(&self, matrix: &QuantizedMatrix) -> Result<u64, CheckpointError> {
        let mut hashes = Vec::new();
        let unpack = self.unpack(matrix, &mut hashes)?;
        let row = unpack.codes.row_bytes(unpack.inputs);
        let chunk = row.map_or(CHUNK, |row| row * rows_per_unit(unpack.inputs));
        hashes.push(self.part_chunks(&matrix.codes, chunk, &|_, _, _, _| Ok(()))?);
        Ok(combined(&hashes))
    }

    /// Check the scales of all quantized matrices, whose values are read for that. Returns all problems.
    pub fn scale_problems(&self) -> Vec<CheckpointError> {
        let problem = |matrix: &QuantizedMatrix| self.unpack(matrix, &mut Vec::new()).err();
        self.quantized.values().filter_map(problem).collect()
    }

    /// How its weights are quantized, for people; `None` if they are not.
    pub fn quantization(&self) -> Option<String> {
        self.quantization.as_ref().map(ToString::to_string)
    }

    /// True if the files have scales of activations, which are not quantized here.
    pub fn has_activation_scales(&self) -> bool {
        self.quantized.values().any(|matrix| matrix.unused)
    }

    /// What unpacks a matrix; hashes of its scales are added.
    fn unpack(&self, matrix: &QuantizedMatrix, hashes: &mut Vec<u64>) -> Result<Unpack, CheckpointError> {
        matrix.unpack(|part| {
            let (bytes, hash) = self.whole(part)?;
            hashes.push(hash);
            Ok(bytes)
        })
    }

    /// All bytes of a tensor, and a hash of them.
    pub(super) fn whole(&self, part: &FileTensor) -> Result<(Vec<u8>, u64), CheckpointError> {
        let mut all = vec![0; part.info.data_offsets.1 - part.info.data_offsets.0];
        let place = DisjointSliceMut::new(&mut all);
        let hash = self.part_chunks(part, CHUNK, &|at, bytes, _, _| {
            // SAFETY: each chunk has bytes of its own.
            unsafe { place.slice(at, bytes.len()) }.copy_from_slice(bytes);
            Ok(())
        })?;
        Ok((all, hash))
    }

    fn part_chunks(
        &self,
        part: &FileTensor,
        chunk: usize,
        take: TakeBytes<'_>,
    ) -> Result<u64, CheckpointError> {
        self.chunks(&self.shards[part.shard], &part.info, chunk, take)
    }
}

#[cfg(test)]
mod tests;
