//! The embedding table, in the checkpoint's type: rows are looked up and widened, never multiplied.

use super::{
    kernels::{Blocks, HalfKind},
    linear::Weight,
};
use crate::store::Store;

/// A table of `vocab × width` values.
pub struct Table {
    values: Values,
    width: usize,
}

/// Values in the type of a checkpoint.
#[derive(Clone)]
pub enum Values {
    /// 32-bit floats.
    F32(Store<f32>),
    /// 16-bit floats.
    Half(HalfKind, Store<u16>),
    /// Blocks of a GGUF file.
    Blocks(Blocks),
}

impl Values {
    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Values::F32(values) => values.len() * 4,
            Values::Half(_, bits) => bits.len() * 2,
            Values::Blocks(blocks) => blocks.bytes(),
        }
    }

    /// The same values as weights.
    pub fn to_weight(&self) -> Weight {
        match self {
            Values::F32(values) => Weight::F32(values.clone()),
            Values::Half(kind, bits) => Weight::Half(*kind, bits.clone()),
            Values::Blocks(blocks) => Weight::Blocks(blocks.clone()),
        }
    }

    /// The values of weights; none if they are arranged for products.
    pub fn of_weight(weight: Weight) -> Option<Self> {
        match weight {
            Weight::F32(values) => Some(Values::F32(values)),
            Weight::Half(kind, bits) => Some(Values::Half(kind, bits)),
            Weight::Blocks(blocks) => Some(Values::Blocks(blocks)),
            Weight::Q8(_) | Weight::Panels(_) => None,
        }
    }
}

impl Table {
    /// A table with rows of `width` values.
    pub fn new(values: Values, width: usize) -> Self {
        Self { values, width }
    }

    /// Values of a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// True if the values are a part of a mapped file.
    pub fn is_mapped(&self) -> bool {
        match &self.values {
            Values::F32(values) => values.is_mapped(),
            Values::Half(_, bits) => bits.is_mapped(),
            Values::Blocks(blocks) => blocks.is_mapped(),
        }
    }

    /// Append the row of an id to `out`. Returns false if there is no such row.
    pub fn row(&self, id: u32, out: &mut Vec<f32>) -> bool {
        let Some(at) = (id as usize).checked_mul(self.width) else { return false };
        let range = at..at + self.width;
        match &self.values {
            Values::F32(values) => values.get(range).map(|row| out.extend_from_slice(row)).is_some(),
            Values::Half(kind, bits) => {
                bits.get(range).map(|row| out.extend(row.iter().map(|&bits| kind.widen(bits)))).is_some()
            }
            Values::Blocks(blocks) if range.end <= blocks.values() => {
                blocks.widen(range, out);
                true
            }
            Values::Blocks(_) => false,
        }
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        self.values.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::{super::kernels::BlockKind, *};

    #[test]
    fn rows_are_exact_in_any_type() {
        let (kind, values) = (HalfKind::Bf16, [1.0f32, -2.5, 0.25, 96.0]);
        let bits = values.map(|v| kind.narrow(v)).to_vec();
        for table in [
            Table::new(Values::F32(values.to_vec().into()), 2),
            Table::new(Values::Half(kind, bits.into()), 2),
        ] {
            let mut out = Vec::new();
            assert!(table.row(1, &mut out) && !table.row(2, &mut out) && !table.row(u32::MAX, &mut out));
            assert_eq!(out, [0.25, 96.0]);
        }
    }

    #[test]
    fn rows_of_blocks_are_widened() {
        let mut blocks = Blocks::empty(BlockKind::Q8_0);
        blocks.push(&[[1.0f32; 32], [-2.0; 32], [0.5; 32], [4.0; 32]].concat());
        let table = Table::new(Values::Blocks(blocks), 64);
        let mut out = Vec::new();
        assert!(table.row(1, &mut out) && !table.row(2, &mut out) && !table.row(u32::MAX, &mut out));
        // The scale of a block is a 16-bit float.
        let near = |(got, want): (&f32, f32)| (got - want).abs() < 1e-3 * want;
        assert!(out.len() == 64 && out.iter().zip([[0.5f32; 32], [4.0; 32]].concat()).all(near), "{out:?}");
        assert_eq!((table.bytes(), table.is_mapped()), (4 * 34, false));
    }
}
