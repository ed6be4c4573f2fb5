//! The embedding table, in the checkpoint's type: rows are looked up and widened, never multiplied.

use std::{ops::Range, sync::Arc};

use super::kernels::{Blocks, HalfKind};
use crate::{
    CheckpointError, TensorType, Weights,
    store::{FileMap, SharedValues},
};

/// A table of `vocab × width` values.
pub struct HostTable {
    values: Values,
    width: usize,
}

/// Values in the type of a checkpoint. Clones share them.
#[derive(Clone)]
pub enum Values {
    F32(SharedValues<f32>),
    Half(HalfKind, SharedValues<u16>),
    /// Blocks of a GGUF file.
    Blocks(Blocks),
}

impl Values {
    /// Zeros. Panics if they are not whole blocks.
    pub fn zeros(kind: TensorType, values: usize) -> Self {
        match kind {
            TensorType::F32 => Self::F32(SharedValues::zeros(values)),
            TensorType::Half(kind) => Self::Half(kind, SharedValues::zeros(values)),
            TensorType::Blocks(kind) => Self::Blocks(Blocks::zeros(kind, values)),
        }
    }

    /// The values at a place (first byte, bytes) of a file; `None` if they are not in it, or not whole.
    pub fn mapped(kind: TensorType, map: &Arc<FileMap>, (at, bytes): (usize, usize)) -> Option<Self> {
        let size = kind.block_bytes();
        let count = bytes.is_multiple_of(size).then_some(bytes / size)?;
        Some(match kind {
            TensorType::F32 => Self::F32(SharedValues::mapped(map, at, count)?),
            TensorType::Half(kind) => Self::Half(kind, SharedValues::mapped(map, at, count)?),
            TensorType::Blocks(kind) => Self::Blocks(Blocks::new(
                kind,
                SharedValues::mapped(map, at, bytes)?,
                count.checked_mul(kind.values())?,
            )?),
        })
    }

    /// The values of a copy of a file's bytes; `None` if they are not whole.
    pub fn copied(kind: TensorType, bytes: &[u8]) -> Option<Self> {
        Some(match kind {
            TensorType::F32 => {
                let values = bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
                Self::F32(values.collect::<Vec<_>>().into())
            }
            TensorType::Half(kind) => {
                let bits = bytes.as_chunks().0.iter().map(|bytes| u16::from_le_bytes(*bytes));
                Self::Half(kind, bits.collect::<Vec<_>>().into())
            }
            TensorType::Blocks(kind) => {
                let values = bytes.len() / kind.bytes() * kind.values();
                Self::Blocks(Blocks::new(kind, bytes.to_vec().into(), values)?)
            }
        })
    }

    /// Append the values `range` (whole blocks) as f32. Panics if they are not values, or not whole blocks.
    pub fn widen(&self, range: Range<usize>, out: &mut Vec<f32>) {
        match self {
            Self::F32(values) => out.extend_from_slice(&values[range]),
            Self::Half(kind, bits) => {
                let from = out.len();
                out.resize(from + range.len(), 0.0);
                kind.widen_all(&bits[range], &mut out[from..]);
            }
            Self::Blocks(blocks) => blocks.widen(range, out),
        }
    }

    pub fn kind(&self) -> TensorType {
        match self {
            Self::F32(_) => TensorType::F32,
            Self::Half(kind, _) => TensorType::Half(*kind),
            Self::Blocks(blocks) => TensorType::Blocks(blocks.kind()),
        }
    }

    /// The values as a file has them.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::F32(values) => values.as_bytes(),
            Self::Half(_, bits) => bits.as_bytes(),
            Self::Blocks(blocks) => blocks.as_bytes(),
        }
    }

    pub fn bytes(&self) -> usize {
        self.as_bytes().len()
    }

    /// Number of values.
    pub fn count(&self) -> usize {
        let kind = self.kind();
        self.bytes() / kind.block_bytes() * kind.block()
    }

    /// True if they are a part of a mapped file.
    pub fn is_mapped(&self) -> bool {
        match self {
            Self::F32(values) => values.is_mapped(),
            Self::Half(_, bits) => bits.is_mapped(),
            Self::Blocks(blocks) => blocks.is_mapped(),
        }
    }
}

impl HostTable {
    /// The tensor `name`, `rows × width`, in the checkpoint's type.
    pub fn load(
        name: &str,
        [rows, width]: [usize; 2],
        checkpoint: &dyn Weights,
    ) -> Result<Self, CheckpointError> {
        let (values, _) = checkpoint.native(name, [rows, width])?;
        Ok(Self::new(values, width))
    }

    /// A table with rows of `width` values.
    pub fn new(values: Values, width: usize) -> Self {
        Self { values, width }
    }

    pub fn width(&self) -> usize {
        self.width
    }

    /// True if the values are a part of a mapped file.
    pub fn is_mapped(&self) -> bool {
        self.values.is_mapped()
    }

    /// Append the row of an id to `out`. Returns false if the id has no row.
    pub fn row(&self, id: u32, out: &mut Vec<f32>) -> bool {
        let Some(at) = (id as usize).checked_mul(self.width) else { return false };
        let range = at..at + self.width;
        let there = range.end <= self.values.count();
        if there {
            self.values.widen(range, out);
        }
        there
    }

    pub fn bytes(&self) -> usize {
        self.values.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BlockKind;

    #[test]
    fn rows_are_exact_in_any_type() {
        let (kind, values) = (HalfKind::Bf16, [1.0f32, -2.5, 0.25, 96.0]);
        let bits = values.map(|v| kind.narrow(v)).to_vec();
        for table in [
            HostTable::new(Values::F32(values.to_vec().into()), 2),
            HostTable::new(Values::Half(kind, bits.into()), 2),
        ] {
            let mut out = Vec::new();
            assert!(table.row(1, &mut out) && !table.row(2, &mut out) && !table.row(u32::MAX, &mut out));
            assert_eq!(out, [0.25, 96.0]);
        }
    }

    #[test]
    fn rows_of_blocks_are_widened() {
        let values = [[1.0f32; 32], [-2.0; 32], [0.5; 32], [4.0; 32]].concat();
        let blocks = Blocks::quantized(BlockKind::Q8_0, &values);
        let table = HostTable::new(Values::Blocks(blocks), 64);
        let mut out = Vec::new();
        assert!(table.row(1, &mut out) && !table.row(2, &mut out) && !table.row(u32::MAX, &mut out));
        // The scale of a block is a 16-bit float.
        let near = |(got, want): (&f32, f32)| (got - want).abs() < 1e-3 * want;
        assert!(out.len() == 64 && out.iter().zip([[0.5f32; 32], [4.0; 32]].concat()).all(near), "{out:?}");
        assert_eq!((table.bytes(), table.is_mapped()), (4 * 34, false));
    }
}
