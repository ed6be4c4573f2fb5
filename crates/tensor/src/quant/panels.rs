//! How weights are stored on a GPU: by panels of 16 outputs and blocks of 32 inputs, in one array for each kind of number.
//!
//! Values are the file's, only moved: nothing is rounded. In each array the order is panel, block (or group of blocks),
//! part, output; so 16 neighboring invocations, one for each output, read consecutive bytes.

use super::{BlockType, Unpacked, with_type};
use crate::TensorType;

/// Outputs of a panel.
pub(crate) const PANEL: usize = 16;
/// Inputs of a block.
pub(crate) const BLOCK: usize = 32;
/// Chunks of a sum, at most; see `gpu/shaders/products.wgsl`.
const CHUNKS: usize = 16;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Array {
    /// Blocks that share an element.
    pub blocks: usize,
    /// Parts of the blocks' value for one output, each of all outputs of a panel.
    pub parts: usize,
    /// Bytes of a part for one output.
    pub bytes: usize,
    /// Write the part for the values of a quantized block from this one on.
    pub fill: fn(&Unpacked, usize, &mut [u8]),
}

impl Array {
    /// Signed bytes: 32 integers of at most 8 bits.
    pub const BYTES: Self = Self::new(1, 2, 16, |block, at, to| {
        to.iter_mut().zip(&block.quants[at..]).for_each(|(to, q)| *to = q.cast_unsigned());
    });
    /// The lower four bits of 32 integers: byte `i` holds the values `i` (low) and `16 + i` (high).
    pub(crate) const NIBBLES: Self = Self::new(1, 1, 16, |block, at, to| {
        let (low, high) = block.quants[at..at + 32].split_at(16);
        for (to, (low, high)) in to.iter_mut().zip(low.iter().zip(high)) {
            *to = low.cast_unsigned() & 15 | high.cast_unsigned() << 4;
        }
    });
    /// The third bits of 32 integers: bit `8 j + k` belongs to value `4 k + j`.
    pub(crate) const THIRD_BITS: Self = Self::new(1, 1, 4, one_bit::<2>);
    /// The fifth bits of 32 integers, in the same order.
    pub(crate) const FIFTH_BITS: Self = Self::new(1, 1, 4, one_bit::<4>);
    /// The lower two bits of 32 integers: bits `8 j + 2 k` and up of half `h` belong to value `16 h + 4 k + j`.
    pub(crate) const LOWER_TWO_BITS: Self = Self::new(1, 1, 8, two_bits::<0>);
    /// The two bits above the lower four of 32 integers, in the same order.
    pub(crate) const UPPER_TWO_BITS: Self = Self::new(1, 1, 8, two_bits::<4>);
    /// The scale of 32 values, in f32.
    pub(crate) const SCALE: Self =
        Self::new(1, 1, 4, |block, _, to| to.copy_from_slice(&block.scale.to_le_bytes()));
    /// The scale of 256 values, in f32.
    pub(crate) const SCALE_OF_EIGHT: Self = Self { blocks: 8, ..Self::SCALE };
    /// The scale of 32 values and their minimum, in f32.
    pub(crate) const SCALE_AND_MINIMUM: Self = Self { blocks: 1, ..Self::SCALE_AND_MINIMUM_OF_EIGHT };
    /// The scale of the scales of 256 values and the scale of their minima, in f32.
    pub(crate) const SCALE_AND_MINIMUM_OF_EIGHT: Self = Self::new(8, 1, 8, |block, _, to| {
        to.copy_from_slice(&[block.scale.to_le_bytes(), block.minimum.to_le_bytes()].concat());
    });
    /// Scale and minimum of 32 values, and of the next 32.
    pub(crate) const SCALES_AND_MINIMA: Self = Self::new(2, 1, 4, |block, at, to| {
        let numbers = block.scales.iter().zip(&block.minima).skip(at / 32);
        for (to, (scale, minimum)) in to.chunks_exact_mut(2).zip(numbers) {
            to.copy_from_slice(&[scale.cast_unsigned(), *minimum]);
        }
    });
    /// The scales of four times 32 values.
    pub(crate) const SCALES: Self = Self::new(4, 1, 4, |block, at, to| {
        to.iter_mut().zip(&block.scales[at / 32..]).for_each(|(to, scale)| *to = scale.cast_unsigned());
    });
    /// The scales (low) and minima (high) of four times 16 values, of four bits each.
    pub(crate) const SCALES_AND_MINIMA_OF_HALVES: Self = Self::new(2, 1, 4, |block, at, to| {
        let numbers = block.scales.iter().zip(&block.minima).skip(at / 16);
        to.iter_mut().zip(numbers).for_each(|(to, (scale, min))| *to = scale.cast_unsigned() | min << 4);
    });
    /// The scales of four times 16 values.
    pub(crate) const SCALES_OF_HALVES: Self = Self::new(2, 1, 4, |block, at, to| {
        to.iter_mut().zip(&block.scales[at / 16..]).for_each(|(to, scale)| *to = scale.cast_unsigned());
    });

    /// Four bits of each of 32 integers of a type's table, in the order of [`Array::NIBBLES`].
    pub(crate) const fn indices<T: BlockType>() -> Self {
        Self::new(1, 1, 16, |block, at, to| {
            let index = const { &indices_of(T::TABLE) };
            let (low, high) = block.quants[at..at + 32].split_at(16);
            for (to, (low, high)) in to.iter_mut().zip(low.iter().zip(high)) {
                let index = |q: &i8| index[usize::from(q.cast_unsigned())];
                *to = index(low) | index(high) << 4;
            }
        })
    }

    const fn new(blocks: usize, parts: usize, bytes: usize, fill: fn(&Unpacked, usize, &mut [u8])) -> Self {
        Self { blocks, parts, bytes, fill }
    }

    /// Floats of 16 bytes to a part, which are stored one by one.
    const fn floats(parts: usize) -> Self {
        Self::new(1, parts, 16, |_, _, _| {})
    }

    /// Values of a part.
    pub fn values(self) -> usize {
        self.blocks * BLOCK / self.parts
    }

    /// Bytes of a panel with rows of `blocks` blocks.
    pub fn panel(self, blocks: usize) -> usize {
        blocks / self.blocks * self.parts * PANEL * self.bytes
    }

    /// The first byte of a part of the value of an output and block.
    pub fn at(self, blocks: usize, output: usize, block: usize, part: usize) -> usize {
        let group = output / PANEL * (blocks / self.blocks) + block / self.blocks;
        ((group * self.parts + part) * PANEL + output % PANEL) * self.bytes
    }
}

fn one_bit<const FROM: u32>(block: &Unpacked, at: usize, to: &mut [u8]) {
    to.fill(0);
    for (i, q) in block.quants[at..at + 32].iter().enumerate() {
        to[i % 4] |= (q.cast_unsigned() >> FROM & 1) << (i / 4);
    }
}

fn two_bits<const FROM: u32>(block: &Unpacked, at: usize, to: &mut [u8]) {
    to.fill(0);
    for (i, q) in block.quants[at..at + 32].iter().enumerate() {
        to[i / 16 * 4 + i % 4] |= (q.cast_unsigned() >> FROM & 3) << (2 * (i % 16 / 4));
    }
}

/// For each integer, as a byte, its place in a table; 0 if it has none.
const fn indices_of(table: Option<[i8; 16]>) -> [u8; 256] {
    let mut indices = [0; 256];
    if let Some(table) = table {
        // The first of equal integers counts.
        let mut i = 16;
        while i > 0 {
            i -= 1;
            indices[table[i].cast_unsigned() as usize] = i as u8;
        }
    }
    indices
}

impl TensorType {
    /// True if the inputs are also quantized.
    pub(crate) fn takes_blocks(self) -> bool {
        matches!(self, Self::Blocks(_))
    }

    /// Its arrays, in the order of the kernels' bindings.
    pub(crate) fn arrays(self) -> &'static [Array] {
        match self {
            Self::F32 => const { &[Array::floats(8)] },
            Self::Half(_) => const { &[Array::floats(4)] },
            // The scales of q8_0 are f32: weights that are quantized during loading have scales that are not rounded to 16 bits.
            Self::Blocks(kind) => with_type!(kind, T => T::ARRAYS),
        }
    }

    /// Bytes of a matrix of `outputs × inputs` on a GPU.
    pub fn bytes_on_gpu(self, outputs: usize, inputs: usize) -> usize {
        let panel: usize = self.arrays().iter().map(|array| array.panel(blocks(inputs))).sum();
        outputs.div_ceil(PANEL) * panel
    }
}

/// Blocks of rows of `inputs` values as stored: an even number, the last of them padded with zeros.
pub(crate) fn blocks(inputs: usize) -> usize {
    inputs.div_ceil(BLOCK).next_multiple_of(2)
}

/// Blocks of a chunk of a sum over `blocks` blocks: an even number.
pub(crate) fn chunk(blocks: usize) -> usize {
    blocks.div_ceil(CHUNKS).next_multiple_of(2).max(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_near_those_of_files() {
        for kind in TensorType::ALL {
            let (bytes, file) = (kind.bytes_on_gpu(16, 256) / 16, kind.bytes(256).unwrap());
            // Codebooks are at most four bits per value, and scales.
            let is_table =
                matches!(kind, TensorType::Blocks(kind) if with_type!(kind, T => T::TABLE.is_some()));
            let near = bytes * 5 <= file * 6 || is_table && bytes <= 128 + 20;
            assert!(bytes >= file && near, "{kind:?}: {bytes} and {file}");
        }
        // Padded to an even number of blocks and whole panels.
        assert_eq!(TensorType::F32.bytes_on_gpu(17, 40), 32 * 64 * 4);
    }

    #[test]
    fn a_sum_has_at_most_sixteen_chunks_of_whole_pairs() {
        for inputs in [1, 32, 64, 96, 896, 1536, 2048, 2080, 4864, 11008, 18944] {
            let (blocks, chunk) = (blocks(inputs), chunk(blocks(inputs)));
            assert!(blocks * BLOCK >= inputs && blocks.is_multiple_of(2) && chunk.is_multiple_of(2));
            assert!(blocks.div_ceil(chunk) <= CHUNKS, "{inputs}");
        }
    }
}
