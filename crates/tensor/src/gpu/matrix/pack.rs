//! Moving weights from the layout of files to the layout of GPUs, see [`crate::quant::panels`].

use std::ops::Range;

use crate::{
    BlockKind, TensorType,
    cpu::kernels::{quantize_blocks, quantize_q8},
    quant::{
        Unpacked,
        panels::{BLOCK, PANEL, blocks},
    },
};

/// Rows of weights, one after the other, as a file has them.
#[derive(Clone, Copy)]
pub(crate) struct StoredRows<'a> {
    pub kind: TensorType,
    pub bytes: &'a [u8],
}

impl<'a> StoredRows<'a> {
    pub(crate) fn floats(values: &'a [f32]) -> Self {
        Self { kind: TensorType::F32, bytes: bytemuck::cast_slice(values) }
    }

    /// The number of rows of `inputs` values.
    pub fn count(self, inputs: usize) -> usize {
        self.bytes.len() / self.kind.block_bytes() * self.kind.block() / inputs.max(1)
    }

    /// Some of the rows.
    pub fn slice(self, inputs: usize, rows: Range<usize>) -> Self {
        let byte = |row: usize| row * inputs / self.kind.block() * self.kind.block_bytes();
        Self { bytes: &self.bytes[byte(rows.start)..byte(rows.end)], ..self }
    }
}

/// Some panels of a matrix in host memory.
pub(crate) struct Panels {
    format: TensorType,
    inputs: usize,
    /// The arrays of [`TensorType::arrays`].
    pub arrays: Vec<Vec<u8>>,
}

impl Panels {
    /// Panels for `outputs` rows of zeros.
    pub fn new(format: TensorType, outputs: usize, inputs: usize) -> Self {
        let panels = outputs.div_ceil(PANEL);
        let arrays =
            format.arrays().iter().map(|array| vec![0; panels * array.panel(blocks(inputs))]).collect();
        Self { format, inputs, arrays }
    }

    /// Store the rows from output `first` on: in the format, or floats to be converted.
    pub fn store(&mut self, first: usize, rows: StoredRows<'_>) -> Result<(), String> {
        let inputs = self.inputs.max(1);
        match (self.format, rows.kind) {
            (TensorType::Blocks(kind), stored) if stored == self.format => {
                let mut block = Unpacked::default();
                for (index, bytes) in rows.bytes.chunks_exact(kind.bytes()).enumerate() {
                    kind.unpack(bytes, &mut block);
                    self.block(kind.values(), first, index, &block);
                }
            }
            (format, stored) if stored == format => {
                for (row, bytes) in rows.bytes.chunks_exact(inputs * format.block_bytes()).enumerate() {
                    self.floats(first + row, bytes);
                }
            }
            (format, TensorType::F32) => {
                return self.convert(first, format, bytemuck::cast_slice(rows.bytes));
            }
            (format, _) => return Err(format!("rows of another type than {}", format.name())),
        }
        Ok(())
    }

    /// Convert and store floats.
    fn convert(&mut self, first: usize, kind: TensorType, values: &[f32]) -> Result<(), String> {
        match kind {
            TensorType::F32 => self.store(first, StoredRows::floats(values)),
            TensorType::Half(half) => {
                let mut bits = vec![0u16; values.len()];
                half.narrow_all(values, &mut bits);
                if !half.are_finite(&bits)
                    && let Some(at) = bits.iter().position(|&bits| !half.widen(bits).is_finite())
                {
                    return Err(format!("{} is too large for a 16-bit float", values[at]));
                }
                self.store(first, StoredRows { kind, bytes: bytemuck::cast_slice(&bits) })
            }
            TensorType::Blocks(BlockKind::Q8_0) => {
                let (mut quants, mut scales) = (vec![0i8; values.len()], vec![0f32; values.len() / BLOCK]);
                quantize_q8(values, &mut quants, &mut scales);
                let mut block = Unpacked::default();
                for (index, (quants, scale)) in quants.chunks_exact(BLOCK).zip(scales).enumerate() {
                    block.scale = scale;
                    block.quants[..BLOCK].copy_from_slice(quants);
                    self.block(BLOCK, first, index, &block);
                }
                Ok(())
            }
            TensorType::Blocks(blocks) => {
                let mut bytes = vec![0; values.len() / blocks.values() * blocks.bytes()];
                quantize_blocks(blocks, values, &mut bytes)?;
                self.store(first, StoredRows { kind, bytes: &bytes })
            }
        }
    }

    /// Store a row of floats, 16 bytes to a part.
    fn floats(&mut self, output: usize, row: &[u8]) {
        let array = &self.format.arrays()[0];
        for (part, bytes) in row.chunks(16).enumerate() {
            let at = array.at(blocks(self.inputs), output, part / array.parts, part % array.parts);
            self.arrays[0][at..at + bytes.len()].copy_from_slice(bytes);
        }
    }

    /// Store block `index` of the rows from output `first` on, each block with `values` values.
    fn block(&mut self, values: usize, first: usize, index: usize, block: &Unpacked) {
        let width = self.inputs / values;
        let (output, start) = (first + index / width, index % width * (values / BLOCK));
        for (array, bytes) in self.format.arrays().iter().zip(&mut self.arrays) {
            for from in (0..values).step_by(array.values()) {
                let part = from / array.values() % array.parts;
                let at = array.at(blocks(self.inputs), output, start + from / BLOCK, part);
                (array.fill)(block, from, &mut bytes[at..at + array.bytes]);
            }
        }
    }
}
