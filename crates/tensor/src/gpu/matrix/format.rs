//! How weights are stored on a GPU: by panels of 16 outputs and blocks of 32 inputs, in one array for each kind of number.
//!
//! Values are those of the file, only moved: nothing is rounded. In each array the order is panel, block (or group of blocks),
//! part, output; so 16 neighbouring invocations, one for each output, read consecutive bytes.

use crate::{
    WeightType,
    cpu::kernels::{BlockKind, HalfKind},
};

/// Outputs of a panel.
pub(crate) const PANEL: usize = 16;
/// Inputs of a block.
pub(crate) const BLOCK: usize = 32;
/// Chunks of a sum, at most; see `shaders/products.wgsl`.
const CHUNKS: usize = 16;

/// A type of weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// 32-bit floats.
    F32,
    /// 16-bit floats.
    Half(HalfKind),
    /// Blocks. The scales of q8_0 are f32: those of weights that are quantised while they are loaded are not rounded to 16 bits.
    Blocks(BlockKind),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Array {
    /// Blocks that share an element.
    pub blocks: usize,
    /// Parts of the blocks' value for one output, each of all outputs of a panel.
    pub parts: usize,
    /// Bytes of a part for one output.
    pub bytes: usize,
}

impl Array {
    const fn new(blocks: usize, parts: usize, bytes: usize) -> Self {
        Self { blocks, parts, bytes }
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

impl Format {
    /// The format of matrices of a weight type with rows of `inputs` values; that of its fallback if its blocks do not divide
    /// the rows, see [`WeightType::fitting`].
    pub fn of(dtype: WeightType, inputs: usize) -> Self {
        match dtype.fitting(inputs) {
            WeightType::F16 => Format::Half(HalfKind::F16),
            WeightType::Bf16 => Format::Half(HalfKind::Bf16),
            dtype => BlockKind::of(dtype).map_or(Format::F32, Format::Blocks),
        }
    }

    /// Its name, as in `--dtype`.
    pub fn name(self) -> &'static str {
        match self {
            Format::F32 => "f32",
            Format::Half(kind) => kind.name(),
            Format::Blocks(kind) => kind.name(),
        }
    }

    /// True if the inputs are quantised, too.
    pub fn takes_blocks(self) -> bool {
        matches!(self, Format::Blocks(_))
    }

    /// Its arrays, in the order of the kernels' bindings.
    pub(crate) fn arrays(self) -> &'static [Array] {
        const fn each(bytes: usize) -> Array {
            Array::new(1, 1, bytes)
        }
        const fn eight(bytes: usize) -> Array {
            Array::new(8, 1, bytes)
        }
        const PAIR: Array = Array::new(2, 1, 4);
        match self {
            Format::F32 => const { &[Array::new(1, 8, 16)] },
            Format::Half(_) => const { &[Array::new(1, 4, 16)] },
            Format::Blocks(BlockKind::Q8_0) => const { &[Array::new(1, 2, 16), each(4)] },
            Format::Blocks(BlockKind::Q4_0) => const { &[each(16), each(4)] },
            Format::Blocks(BlockKind::Q4K) => const { &[each(16), PAIR, eight(8)] },
            Format::Blocks(BlockKind::Q5K) => const { &[each(16), each(4), PAIR, eight(8)] },
            Format::Blocks(BlockKind::Q6K) => const { &[each(16), each(8), PAIR, eight(4)] },
        }
    }

    /// Bytes of a panel of rows of `inputs` values, in all arrays.
    pub(crate) fn panel(self, inputs: usize) -> usize {
        self.arrays().iter().map(|array| array.panel(blocks(inputs))).sum()
    }

    /// Bytes of a matrix of `outputs × inputs`.
    pub fn bytes(self, outputs: usize, inputs: usize) -> usize {
        outputs.div_ceil(PANEL) * self.panel(inputs)
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
        for (dtype, file) in [
            (WeightType::F32, 1024),
            (WeightType::Bf16, 512),
            (WeightType::Q8_0, 272),
            (WeightType::Q6K, 210),
            (WeightType::Q5K, 176),
            (WeightType::Q4K, 144),
            (WeightType::Q4_0, 144),
        ] {
            let bytes = Format::of(dtype, 256).bytes(16, 256) / 16;
            assert!(bytes >= file && bytes * 8 <= file * 9, "{dtype:?}: {bytes} and {file}");
        }
        // Padded to an even number of blocks and whole panels.
        assert_eq!(Format::F32.bytes(17, 40), 32 * 64 * 4);
        assert_eq!(Format::of(WeightType::Q4K, 96), Format::Blocks(BlockKind::Q8_0));
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
