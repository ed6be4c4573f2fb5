//! Reading matrices whose outputs are columns of a tensor.

use super::{
    read::{ReadBuffers, in_parallel, rows_per_unit},
    tensors::widen,
    *,
};
use specreel_tensor::weights::TakeRows;

impl Checkpoint {
    /// Call `take` with the index of the first value and the values of each unit of rows. Fails for values that are not finite.
    /// Returns a hash of all bytes of the tensor.
    pub(super) fn transposed(
        &self,
        name: &str,
        matrix: &ExpertMatrix,
        first: usize,
        take: TakeRows<'_>,
    ) -> Result<u64, CheckpointError> {
        let (stored, [rows, width]) = (&matrix.stored.info, matrix.shape);
        let (bytes, hash) = self.whole(&matrix.stored)?;
        let size = stored.dtype.bitsize() / 8;
        let unit = rows_per_unit(width.max(1));
        in_parallel(rows.div_ceil(unit), &|index, ReadBuffers { values, .. }| {
            self.report()?;
            let (from, count) = (index * unit, unit.min(rows - index * unit));
            values.resize(count * width, 0.0);
            let mut columns = Vec::with_capacity(count);
            for (at, row) in bytes.chunks_exact(stored.shape[1] * size).enumerate() {
                columns.clear();
                widen(&row[(first + from) * size..][..count * size], stored.dtype, &mut columns);
                columns.iter().enumerate().for_each(|(row, value)| values[row * width + at] = *value);
            }
            match values.iter().position(|value| !value.is_finite()) {
                Some(at) => {
                    let path = self.shards[matrix.stored.shard].path.display();
                    Err(format!("value {} is {}, in {path}", from * width + at, values[at]))
                }
                None => take(from * width, values),
            }
            .map_err(|problem| CheckpointError::tensor(name, &problem))
        })?;
        self.read.fetch_add(1, Ordering::Relaxed);
        self.report()?;
        Ok(hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use specreel_tensor::Weights;

    #[test]
    fn experts_of_one_tensor_have_hashes_and_rows_of_their_own() {
        for (name, transposed) in [("qwen3_vl_moe", true), ("qwen3_5_moe", false)] {
            let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/parity/fixtures");
            let checkpoint = Checkpoint::open(&Path::new(fixtures).join(name)).unwrap();
            let experts = checkpoint.tensors().filter(|tensor| tensor.name.contains(".mlp.experts."));
            let mut first = Vec::new();
            for tensor in experts {
                let shape = [tensor.shape[0], tensor.shape[1]];
                let is_transposed =
                    matches!(checkpoint.stored_in(tensor.name), Some(TensorPlace::Transposed(..)));
                assert_eq!(is_transposed, transposed, "{name}");
                let rows = Mutex::new(vec![f32::NAN; shape[0] * shape[1]]);
                let hash = checkpoint.rows_parallel(tensor.name, shape, &|row, values| {
                    rows.lock().unwrap()[row * shape[1]..][..values.len()].copy_from_slice(values);
                    Ok(())
                });
                assert_eq!(Some(hash.unwrap()), checkpoint.hash(tensor.name).unwrap(), "{}", tensor.name);
                let rows = rows.into_inner().unwrap();
                assert_eq!(rows, checkpoint.f32(tensor.name, &shape).unwrap());
                assert_eq!(tensor.bytes, 2 * rows.len() as u64);
                first.push(rows[..4].to_vec());
            }
            let all = first.len();
            first.sort_by(|a, b| a.partial_cmp(b).unwrap());
            first.dedup();
            assert!(all > 50 && first.len() == all, "{name}: matrices begin alike");
        }
    }
}
