//! Filling a matrix: rows are converted to the weight type as they are read, on all threads.

use super::{
    kernels::{self, FloatPanels, FloatPanelsMut, HalfKind, Weights8, Weights8Mut},
    linear::{Linear, Weight},
    table::Values,
    thread_pool::DisjointSliceMut,
};
use crate::{BlockKind, TensorType, WeightType};

/// A matrix that is read row by row; each row is converted at once, so that the whole matrix never exists in another type.
///
/// What it computes is kept between starts of the program: a change of its results or of their layout changes
/// `weight_cache::FORMAT` of specreel-checkpoint or [`Weights8::layout`].
pub struct Builder {
    weight: Weight,
    inputs: usize,
    outputs: usize,
    rows: usize,
}

impl Builder {
    /// An empty matrix of `outputs × inputs` weights of a type, or of its fallback (see [`WeightType::fitting`]).
    pub fn new(outputs: usize, inputs: usize, dtype: WeightType) -> Self {
        let weight = match dtype.fitting(inputs) {
            // Arranged for this processor, not as in a file.
            TensorType::Blocks(BlockKind::Q8_0) => Weight::Q8(Weights8::empty(outputs, inputs)),
            kind => Weight::Stored(Values::zeros(kind, outputs * inputs)),
        };
        Self { weight, inputs, outputs, rows: 0 }
    }

    /// As [`Builder::new`], for products of many rows: floats are arranged in panels.
    pub fn wide(outputs: usize, inputs: usize, dtype: WeightType) -> Self {
        let kind = match dtype.fitting(inputs) {
            TensorType::F32 => None,
            TensorType::Half(kind) => Some(kind),
            TensorType::Blocks(_) => return Self::new(outputs, inputs, dtype),
        };
        Self { weight: Weight::Panels(FloatPanels::empty(outputs, inputs, kind)), inputs, outputs, rows: 0 }
    }

    /// Convert and append rows, row-major. Fails if a value is too large for the type, the rows are not whole, or there are too
    /// many.
    pub fn push(&mut self, rows: &[f32]) -> Result<(), String> {
        let (inputs, outputs) = (self.inputs.max(1), self.outputs);
        if !rows.len().is_multiple_of(inputs) {
            return Err(format!("{} values are not whole rows of a {outputs} × {inputs} matrix", rows.len()));
        }
        let count = rows.len() / inputs;
        let place = self.append(count)?;
        // SAFETY: one call at a time.
        unsafe { place.store(0, rows) }
    }

    /// The place of the next `count` rows, to be filled by several threads. Fails if the matrix has fewer rows left.
    pub fn append(&mut self, count: usize) -> Result<RowsMut<'_>, String> {
        let (inputs, outputs, first) = (self.inputs, self.outputs, self.rows);
        if count > outputs - first {
            return Err(format!("{count} rows after {first} rows of a {outputs} × {inputs} matrix"));
        }
        self.rows += count;
        let place = match &mut self.weight {
            Weight::Stored(Values::F32(weight)) => Place::F32(DisjointSliceMut::new(weight.owned())),
            Weight::Stored(Values::Half(kind, weight)) => {
                Place::Half(*kind, DisjointSliceMut::new(weight.owned()))
            }
            Weight::Stored(Values::Blocks(blocks)) => {
                Place::Blocks(blocks.kind(), DisjointSliceMut::new(blocks.owned()))
            }
            Weight::BlockPanels(_) => unreachable!("blocks are put into panels when all are there"),
            Weight::Panels(weight) => Place::Panels(weight.places()),
            Weight::Q8(weight) => Place::Q8(weight.places()),
        };
        Ok(RowsMut { place, inputs, first, count })
    }

    /// The matrix, with a bias. Panics if rows are missing, or the bias has another length.
    pub fn finish(self, bias: Option<Vec<f32>>) -> Linear {
        let outputs = self.outputs;
        let inputs = self.inputs;
        match Linear::stack(vec![(self.into_weight(), outputs)], inputs, bias) {
            Ok(linear) => linear,
            Err(problem) => unreachable!("{problem}"),
        }
    }

    /// The weights alone. Panics if rows are missing.
    pub fn into_weight(self) -> Weight {
        let Self { weight, outputs, rows, .. } = self;
        assert!(rows == outputs, "{rows} of {outputs} rows were read");
        weight
    }
}

/// Rows of a matrix that several threads fill at disjoint places.
pub struct RowsMut<'a> {
    place: Place<'a>,
    inputs: usize,
    /// The first of these rows in the matrix.
    first: usize,
    count: usize,
}

enum Place<'a> {
    F32(DisjointSliceMut<'a, f32>),
    Half(HalfKind, DisjointSliceMut<'a, u16>),
    Panels(FloatPanelsMut<'a>),
    Q8(Weights8Mut<'a>),
    Blocks(BlockKind, DisjointSliceMut<'a, u8>),
}

impl RowsMut<'_> {
    /// Convert the rows from `row` on, which counts from the first of these. Fails if a value is too large for the type. Panics
    /// if they are not whole rows of these.
    ///
    /// # Safety
    /// No two calls may store the same row at the same time.
    pub unsafe fn store(&self, row: usize, rows: &[f32]) -> Result<(), String> {
        let inputs = self.inputs;
        let count = rows.len() / inputs.max(1);
        assert!(rows.len() == count * inputs && row + count <= self.count, "rows outside of the place");
        let at = (self.first + row) * inputs;
        match &self.place {
            // SAFETY: the rows are the caller's.
            Place::F32(weight) => unsafe { weight.slice(at, rows.len()) }.copy_from_slice(rows),
            Place::Half(kind, weight) => {
                // SAFETY: as above.
                let weight = unsafe { weight.slice(at, rows.len()) };
                kind.narrow_all(rows, weight);
                if let Some(value) = weight.iter().position(|&bits| !kind.widen(bits).is_finite()) {
                    return Err(format!("{} is too large for a 16-bit float", rows[value]));
                }
            }
            Place::Panels(weight) => {
                for (index, values) in rows.chunks_exact(inputs.max(1)).enumerate() {
                    // SAFETY: as above.
                    let stored = unsafe { weight.store(self.first + row + index, values) };
                    stored.map_err(|value| format!("{value} is too large for a 16-bit float"))?;
                }
            }
            // SAFETY: as above.
            Place::Q8(weight) => unsafe { weight.store(self.first + row, rows, inputs) },
            Place::Blocks(kind, weight) => {
                let (values, bytes) = (kind.values(), kind.bytes());
                // SAFETY: as above; rows are whole blocks.
                let weight = unsafe { weight.slice(at / values * bytes, rows.len() / values * bytes) };
                kernels::quantize_blocks(*kind, rows, weight)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kept::Keep;

    #[test]
    fn values_too_large_for_the_type_are_refused() {
        assert!(Builder::new(1, 2, WeightType::F16).push(&[1.0, 7e4]).unwrap_err().contains("70000"));
        assert!(Builder::new(1, 2, WeightType::Bf16).push(&[1.0, 7e4]).is_ok());
    }

    #[test]
    fn incomplete_matrices_are_refused() {
        for dtype in [WeightType::F32, WeightType::Q8_0] {
            let mut builder = Builder::new(2, 32, dtype);
            assert!(builder.push(&[1.0; 33]).is_err() && builder.push(&[1.0; 96]).is_err());
            builder.push(&[1.0; 32]).unwrap();
            let finish = || builder.finish(None);
            let finished = std::panic::catch_unwind(std::panic::AssertUnwindSafe(finish));
            assert!(finished.is_err(), "{dtype:?}: a row is missing");
        }
    }

    #[test]
    fn rows_stored_in_any_order_and_number_give_the_same_matrix() {
        use WeightType as W;
        for (dtype, inputs) in
            [(W::F32, 40), (W::F16, 40), (W::Bf16, 40), (W::Q8_0, 96), (W::Q4_0, 96), (W::Q6K, 256)]
        {
            let outputs = 75;
            let values: Vec<f32> = (0..outputs * inputs).map(|i| (i as f32 * 0.37).sin()).collect();
            let mut pushed = Builder::new(outputs, inputs, dtype);
            values.chunks(inputs).for_each(|row| pushed.push(row).unwrap());
            let mut stored = Builder::new(outputs, inputs, dtype);
            // Two tensors, the second after rows that do not fill a panel.
            for tensor in [0..21, 21..outputs] {
                let place = stored.append(tensor.len()).unwrap();
                let mut starts: Vec<usize> = (0..tensor.len()).step_by(17).collect();
                starts.reverse();
                for start in starts {
                    let end = (start + 17).min(tensor.len());
                    let rows = &values[(tensor.start + start) * inputs..(tensor.start + end) * inputs];
                    // SAFETY: one call at a time.
                    unsafe { place.store(start, rows).unwrap() };
                }
            }
            assert!(stored.append(1).is_err());
            let (pushed, stored) = (pushed.into_weight(), stored.into_weight());
            assert!(pushed.arrays() == stored.arrays(), "{dtype:?}");
        }
    }
}
