//! Blocks of sixteen outputs side by side.
//!
//! A file has the blocks of one output after the other, and sixteen outputs that are multiplied together must be rearranged in every
//! pass. In a panel they are rearranged once: for each block the four-byte words in their order, each of all outputs, which is a cache
//! line. Two bytes that are left of a block (a 16-bit float) follow the words of the whole matrix. The bytes are the same, and so are
//! all products.

use super::Blocks;
use crate::{
    BlockKind,
    cpu::thread_pool::{DisjointSliceMut, ThreadPool},
    quant::{BlockType, with_type},
    store::SharedValues,
};

/// Outputs of a panel.
pub const PANEL: usize = 16;

/// Where a block's bytes are in a panel.
#[derive(Clone, Copy)]
pub struct PanelLayout {
    /// The byte of the first word.
    pub first: usize,
    pub words: usize,
    /// The byte of the 16-bit float that is left.
    pub left: Option<usize>,
}

impl PanelLayout {
    pub const fn of<T: BlockType>() -> Self {
        let words = T::BYTES / 4;
        match (T::BYTES % 4, T::HALVES) {
            (0, _) => Self { first: 0, words, left: None },
            (_, [0, ..]) => Self { first: 2, words, left: Some(0) },
            _ => Self { first: 0, words, left: Some(words * 4) },
        }
    }

    /// Bytes of the words of so many blocks of sixteen outputs.
    pub const fn words_of(self, blocks: usize) -> usize {
        blocks * self.words * 4 * PANEL
    }
}

/// A matrix of blocks in panels: panel, block, word, output; then panel, block, float, output. Outputs beyond the matrix repeat the
/// last one. Clones share the blocks.
#[derive(Clone)]
pub struct BlockPanels {
    kind: BlockKind,
    bytes: SharedValues<u8>,
    inputs: usize,
    outputs: usize,
}

impl BlockPanels {
    /// True if this processor multiplies blocks of a type in panels.
    pub fn has(kind: BlockKind) -> bool {
        use BlockKind as K;
        let in_words = matches!(
            kind,
            K::Q8_0
                | K::Q6K
                | K::Q5_1
                | K::Q5K
                | K::Q5_0
                | K::Q4_1
                | K::Q4K
                | K::Iq4Nl
                | K::Q4_0
                | K::Iq4Xs
                | K::Q3K
                | K::Q2K
        );
        in_words && super::super::has_avx512()
    }

    /// The panels of a matrix of `outputs × inputs`. Panics if it has another size.
    pub fn new(blocks: &Blocks, outputs: usize, inputs: usize) -> Self {
        let kind = blocks.kind();
        assert!(blocks.values() == outputs * inputs && outputs > 0, "the matrix has another size");
        let (in_row, panels) = (inputs / kind.values(), outputs.div_ceil(PANEL));
        let row = in_row * kind.bytes();
        let mut bytes = SharedValues::zeros(panels * PANEL * row);
        let layout = with_type!(kind, T => PanelLayout::of::<T>());
        let (words, left) = bytes.owned().split_at_mut(layout.words_of(panels * in_row));
        let (words, left) = (DisjointSliceMut::new(words), DisjointSliceMut::new(left));
        ThreadPool::global().run(panels, &|panel| {
            let (size, floats) = (layout.words_of(in_row), left_of(layout, in_row));
            // SAFETY: each unit has a panel of its own.
            let (words, left) =
                unsafe { (words.slice(panel * size, size), left.slice(panel * floats, floats)) };
            for output in 0..PANEL {
                let from = (panel * PANEL + output).min(outputs - 1) * row;
                let blocks = blocks.as_bytes()[from..from + row].chunks_exact(kind.bytes());
                for (b, block) in blocks.enumerate() {
                    let words = &mut words[layout.words_of(b)..layout.words_of(b + 1)];
                    for (word, to) in
                        block[layout.first..].as_chunks::<4>().0.iter().zip(words.as_chunks_mut().0)
                    {
                        let to: &mut [u8; 4 * PANEL] = to;
                        to[output * 4..output * 4 + 4].copy_from_slice(word);
                    }
                    if let Some(at) = layout.left {
                        let to = (b * PANEL + output) * 2;
                        left[to..to + 2].copy_from_slice(&block[at..at + 2]);
                    }
                }
            }
        });
        Self { kind, bytes, inputs, outputs }
    }

    pub fn kind(&self) -> BlockKind {
        self.kind
    }

    /// Bytes of the matrix, without the outputs beyond it.
    pub fn bytes(&self) -> usize {
        self.outputs * self.inputs / self.kind.values() * self.kind.bytes()
    }

    /// True if this is a matrix of `outputs × inputs`.
    pub fn is(&self, outputs: usize, inputs: usize) -> bool {
        (self.outputs, self.inputs) == (outputs, inputs)
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Bytes of the floats that are left of so many blocks of sixteen outputs.
fn left_of(layout: PanelLayout, blocks: usize) -> usize {
    if layout.left.is_some() { blocks * 2 * PANEL } else { 0 }
}
