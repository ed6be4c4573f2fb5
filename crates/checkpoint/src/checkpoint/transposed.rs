//! Reading matrices whose outputs are columns of a tensor.

use super::{
    read::{Buffers, in_parallel, rows_per_unit},
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
        in_parallel(rows.div_ceil(unit), &|index, Buffers { values, .. }| {
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
