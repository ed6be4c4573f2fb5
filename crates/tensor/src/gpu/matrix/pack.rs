//! Moving weights from the layout of files to that of GPUs, see [`crate::gpu::matrix::format`].

use std::ops::Range;

use crate::{
    BlockKind, TensorType,
    cpu::kernels::{quantize_blocks, quantize_q8},
    gpu::matrix::format::{BLOCK, PANEL, blocks},
    quant::Unpacked,
};

/// Rows of weights, one after the other.
#[derive(Clone, Copy)]
pub(crate) enum Rows<'a> {
    /// 32-bit floats.
    F32(&'a [f32]),
    /// 16-bit floats of the format's kind.
    Half(&'a [u16]),
    /// Blocks of a kind, the format's, as a file has them.
    Blocks(BlockKind, &'a [u8]),
}

impl<'a> Rows<'a> {
    /// The number of rows of `inputs` values.
    pub fn count(self, inputs: usize) -> usize {
        let values = match self {
            Rows::F32(values) => values.len(),
            Rows::Half(bits) => bits.len(),
            Rows::Blocks(kind, bytes) => bytes.len() / kind.bytes() * kind.values(),
        };
        values / inputs.max(1)
    }

    /// Some of the rows.
    pub fn slice(self, inputs: usize, rows: Range<usize>) -> Self {
        let values = rows.start * inputs..rows.end * inputs;
        match self {
            Rows::F32(all) => Rows::F32(&all[values]),
            Rows::Half(all) => Rows::Half(&all[values]),
            Rows::Blocks(kind, all) => {
                let byte = |value: usize| value / kind.values() * kind.bytes();
                Rows::Blocks(kind, &all[byte(values.start)..byte(values.end)])
            }
        }
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
    ///
    /// # Errors
    /// A message, if a value is too large for the format.
    pub fn store(&mut self, first: usize, rows: Rows<'_>) -> Result<(), String> {
        let inputs = self.inputs.max(1);
        match (self.format, rows) {
            (TensorType::F32, Rows::F32(values)) => {
                for (row, values) in values.chunks_exact(inputs).enumerate() {
                    self.floats(first + row, values, 4, |value, to| to.copy_from_slice(&value.to_le_bytes()));
                }
            }
            (TensorType::Half(kind), Rows::F32(values)) => {
                let mut bits = vec![0; values.len()];
                kind.narrow_all(values, &mut bits);
                if !kind.are_finite(&bits)
                    && let Some(at) = bits.iter().position(|&bits| !kind.widen(bits).is_finite())
                {
                    return Err(format!("{} is too large for a 16-bit float", values[at]));
                }
                return self.store(first, Rows::Half(&bits));
            }
            (TensorType::Half(_), Rows::Half(bits)) => {
                for (row, bits) in bits.chunks_exact(inputs).enumerate() {
                    self.floats(first + row, bits, 2, |bits, to| to.copy_from_slice(&bits.to_le_bytes()));
                }
            }
            (TensorType::Blocks(BlockKind::Q8_0), Rows::F32(values)) => {
                let (mut quants, mut scales) = (vec![0i8; values.len()], vec![0f32; values.len() / BLOCK]);
                quantize_q8(values, &mut quants, &mut scales);
                let mut block = Unpacked::default();
                for (index, (quants, scale)) in quants.chunks_exact(BLOCK).zip(scales).enumerate() {
                    block.scale = scale;
                    block.quants.iter_mut().zip(quants).for_each(|(to, q)| *to = i16::from(*q));
                    self.block(BLOCK, first, index, &block);
                }
            }
            (TensorType::Blocks(kind), Rows::F32(values)) => {
                let mut bytes = vec![0; values.len() / kind.values() * kind.bytes()];
                quantize_blocks(kind, values, &mut bytes);
                return self.store(first, Rows::Blocks(kind, &bytes));
            }
            (TensorType::Blocks(kind), Rows::Blocks(stored, bytes)) if kind == stored => {
                let mut block = Unpacked::default();
                for (index, bytes) in bytes.chunks_exact(kind.bytes()).enumerate() {
                    kind.unpack(bytes, &mut block);
                    self.block(kind.values(), first, index, &block);
                }
            }
            (format, _) => return Err(format!("rows of another type than {}", format.name())),
        }
        Ok(())
    }

    /// Store a row of floats of `size` bytes, 16 bytes to a part.
    fn floats<T: Copy>(&mut self, output: usize, values: &[T], size: usize, put: impl Fn(T, &mut [u8])) {
        let (array, count) = (&self.format.arrays()[0], 16 / size);
        for (part, values) in values.chunks(count).enumerate() {
            let at = array.at(blocks(self.inputs), output, part / array.parts, part % array.parts);
            for (to, value) in self.arrays[0][at..at + 16].chunks_exact_mut(size).zip(values) {
                put(*value, to);
            }
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
