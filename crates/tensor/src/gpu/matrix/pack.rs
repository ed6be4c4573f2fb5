//! Moving weights from the layout of files to that of GPUs, see [`crate::gpu::matrix::format`].

use std::ops::Range;

use crate::cpu::kernels::{BlockKind, quantize_blocks, quantize_q8};
use crate::gpu::matrix::format::{BLOCK, Format, PANEL, blocks};

/// Blocks of a block of 256.
const EIGHT: usize = 8;

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
    format: Format,
    inputs: usize,
    /// The arrays of [`Format::arrays`].
    pub arrays: Vec<Vec<u8>>,
}

impl Panels {
    /// Panels for `outputs` rows of zeros.
    pub fn new(format: Format, outputs: usize, inputs: usize) -> Self {
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
            (Format::F32, Rows::F32(values)) => {
                for (row, values) in values.chunks_exact(inputs).enumerate() {
                    self.floats(first + row, values, 4, |value, to| to.copy_from_slice(&value.to_le_bytes()));
                }
            }
            (Format::Half(kind), Rows::F32(values)) => {
                let mut bits = vec![0; values.len()];
                kind.narrow_all(values, &mut bits);
                if !kind.are_finite(&bits)
                    && let Some(at) = bits.iter().position(|&bits| !kind.widen(bits).is_finite())
                {
                    return Err(format!("{} is too large for a 16-bit float", values[at]));
                }
                return self.store(first, Rows::Half(&bits));
            }
            (Format::Half(_), Rows::Half(bits)) => {
                for (row, bits) in bits.chunks_exact(inputs).enumerate() {
                    self.floats(first + row, bits, 2, |bits, to| to.copy_from_slice(&bits.to_le_bytes()));
                }
            }
            (Format::Blocks(BlockKind::Q8_0), Rows::F32(values)) => {
                let (mut quants, mut scales) = (vec![0i8; values.len()], vec![0f32; values.len() / BLOCK]);
                quantize_q8(values, &mut quants, &mut scales);
                for (index, (quants, scale)) in quants.as_chunks::<BLOCK>().0.iter().zip(scales).enumerate() {
                    let place = (first + index / (inputs / BLOCK), index % (inputs / BLOCK));
                    self.q8(place, &quants.map(i8::cast_unsigned), scale);
                }
            }
            (Format::Blocks(kind), Rows::F32(values)) => {
                let mut bytes = vec![0; values.len() / kind.values() * kind.bytes()];
                quantize_blocks(kind, values, &mut bytes);
                return self.store(first, Rows::Blocks(kind, &bytes));
            }
            (Format::Blocks(kind), Rows::Blocks(stored, bytes)) if kind == stored => {
                let width = inputs / kind.values();
                for (index, bytes) in bytes.chunks_exact(kind.bytes()).enumerate() {
                    self.block(kind, (first + index / width, index % width), bytes);
                }
            }
            (format, _) => return Err(format!("rows of another type than {}", format.name())),
        }
        Ok(())
    }

    /// Store a row of floats of `size` bytes, 16 bytes to a part.
    fn floats<T: Copy>(&mut self, output: usize, values: &[T], size: usize, put: impl Fn(T, &mut [u8])) {
        let (array, count) = (self.format.arrays()[0], 16 / size);
        for (part, values) in values.chunks(count).enumerate() {
            let at = array.at(blocks(self.inputs), output, part / array.parts, part % array.parts);
            for (to, value) in self.arrays[0][at..at + 16].chunks_exact_mut(size).zip(values) {
                put(*value, to);
            }
        }
    }

    /// Store bytes in an array at a place (output, block).
    fn put(&mut self, array: usize, (output, block): (usize, usize), part: usize, bytes: &[u8]) {
        let at = self.format.arrays()[array].at(blocks(self.inputs), output, block, part);
        self.arrays[array][at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn q8(&mut self, place: (usize, usize), quants: &[u8; BLOCK], scale: f32) {
        self.put(0, place, 0, &quants[..16]);
        self.put(0, place, 1, &quants[16..]);
        self.put(1, place, 0, &scale.to_le_bytes());
    }

    /// Store a block as a file has it; `block` counts blocks of its size.
    fn block(&mut self, kind: BlockKind, (output, block): (usize, usize), bytes: &[u8]) {
        let half = |at: usize| half::f16::from_le_bytes([bytes[at], bytes[at + 1]]).to_f32().to_le_bytes();
        let place = (output, block);
        match kind {
            BlockKind::Q8_0 => {
                self.put(0, place, 0, &bytes[2..18]);
                self.put(0, place, 1, &bytes[18..]);
                self.put(1, place, 0, &half(0));
            }
            BlockKind::Q4_0 => {
                self.put(0, place, 0, &bytes[2..]);
                self.put(1, place, 0, &half(0));
            }
            BlockKind::Q4K | BlockKind::Q5K | BlockKind::Q6K => {
                let mut quants = [0; 256];
                integers(kind, bytes, &mut quants);
                let (scales, eights, last) =
                    (self.format.arrays().len() - 2, self.format.arrays().len() - 1, block * EIGHT);
                for (index, quants) in quants.as_chunks::<BLOCK>().0.iter().enumerate() {
                    let place = (output, block * EIGHT + index);
                    let mut low = [0; 16];
                    for (i, low) in low.iter_mut().enumerate() {
                        *low = quants[i] & 15 | (quants[i + 16] & 15) << 4;
                    }
                    self.put(0, place, 0, &low);
                    match kind {
                        BlockKind::Q5K => self.put(1, place, 0, &fifths(quants).to_le_bytes()),
                        BlockKind::Q6K => {
                            let tops = [tops(&quants[..16]), tops(&quants[16..])];
                            self.put(1, place, 0, &tops.map(u32::to_le_bytes).concat());
                        }
                        _ => {}
                    }
                    // Two blocks to a word: a scale and a minimum, or two scales.
                    let pair = match kind {
                        BlockKind::Q6K => [bytes[192 + 2 * index], bytes[193 + 2 * index]],
                        _ => scale_and_minimum(index, &bytes[4..16]),
                    };
                    let at = self.format.arrays()[scales].at(blocks(self.inputs), output, place.1, 0)
                        + index % 2 * 2;
                    self.arrays[scales][at..at + 2].copy_from_slice(&pair);
                }
                match kind {
                    BlockKind::Q6K => self.put(eights, (output, last), 0, &half(208)),
                    _ => self.put(eights, (output, last), 0, &[half(0), half(2)].concat()),
                }
            }
        }
    }
}

/// The integers of a block of 256 as they are stored, without an offset.
fn integers(kind: BlockKind, bytes: &[u8], out: &mut [u8; 256]) {
    if kind == BlockKind::Q6K {
        for half in 0..2 {
            let (low, high, out) = (&bytes[half * 64..], &bytes[128 + half * 32..], &mut out[half * 128..]);
            for i in 0..32 {
                let q = |low: u8, shift: u8| low & 15 | (high[i] >> shift & 3) << 4;
                out[i] = q(low[i], 0);
                out[i + 32] = q(low[i + 32], 2);
                out[i + 64] = q(low[i] >> 4, 4);
                out[i + 96] = q(low[i + 32] >> 4, 6);
            }
        }
        return;
    }
    let (high, low) = match kind {
        BlockKind::Q5K => (Some(&bytes[16..48]), &bytes[48..]),
        _ => (None, &bytes[16..]),
    };
    for (pair, quants) in low.chunks_exact(32).enumerate() {
        for (i, q) in quants.iter().enumerate() {
            let bit = |sub: usize| high.map_or(0, |high| (high[i] >> sub & 1) << 4);
            out[pair * 64 + i] = q & 15 | bit(2 * pair);
            out[pair * 64 + 32 + i] = q >> 4 | bit(2 * pair + 1);
        }
    }
}

/// The 6-bit scale and minimum of block `j` of eight; `packed` are twelve bytes.
fn scale_and_minimum(j: usize, packed: &[u8]) -> [u8; 2] {
    if j < 4 {
        return [packed[j] & 63, packed[j + 4] & 63];
    }
    let low = packed[j + 4];
    [low & 15 | packed[j - 4] >> 6 << 4, low >> 4 | packed[j] >> 6 << 4]
}

/// Bit `8 j + k`: the fifth bit of value `4 k + j`.
fn fifths(quants: &[u8; BLOCK]) -> u32 {
    let bit = |(i, q): (usize, &u8)| u32::from(q >> 4 & 1) << (8 * (i % 4) + i / 4);
    quants.iter().enumerate().map(bit).fold(0, |all, bit| all | bit)
}

/// Bits `8 j + 2 k` and up: the upper two bits of value `4 k + j`, of 16 values.
fn tops(quants: &[u8]) -> u32 {
    let bits = |(i, q): (usize, &u8)| u32::from(q >> 4 & 3) << (8 * (i % 4) + 2 * (i / 4));
    quants.iter().enumerate().map(bits).fold(0, |all, bits| all | bits)
}
