//! From codes and scales to values, in f32.

/// The values of bytes as floats with 4 bits of exponent and 3 of mantissa, without infinities (OCP E4M3).
pub(crate) static E4M3: [f32; 256] = {
    let mut table = [0.0; 256];
    let mut code = 0;
    while code < 256 {
        let (exponent, mantissa) = ((code >> 3) & 15, code & 7);
        let value = match (exponent, mantissa) {
            (15, 7) => f32::NAN,
            (0, _) => mantissa as f32 / 512.0,
            _ => f32::from_bits(((exponent + 120) << 23 | mantissa << 20) as u32),
        };
        table[code] = if code < 128 { value } else { -value };
        code += 1;
    }
    table
};

/// The values of bytes as integers.
pub(crate) static INT8: [f32; 256] = {
    let mut table = [0.0; 256];
    let mut code = 0;
    while code < 256 {
        table[code] = code as u8 as i8 as f32;
        code += 1;
    }
    table
};

/// The place of an output's code in a word of AWQ.
const AWQ: [u32; 8] = [0, 4, 1, 5, 2, 6, 3, 7];

#[derive(Clone, Copy)]
pub(crate) enum Codes {
    /// One byte each, row by row, of these values.
    Bytes(&'static [f32; 256]),
    /// Of so many bits, row by row, each row in whole words.
    Rows { bits: usize },
    /// AWQ: words of eight outputs of an input, input by input.
    Outputs,
    /// GPTQ: words of inputs of an output, outputs side by side.
    Inputs { bits: usize },
}

impl Codes {
    /// Bytes of a row of `inputs` codes, if rows are stored one by one.
    pub fn row_bytes(self, inputs: usize) -> Option<usize> {
        match self {
            Self::Bytes(_) => Some(inputs),
            Self::Rows { bits } => Some((inputs * bits).div_ceil(32) * 4),
            Self::Outputs | Self::Inputs { .. } => None,
        }
    }
}

/// How codes and scales make values.
pub(crate) enum Offsets {
    /// code · scale
    None,
    /// (code - zero) · scale
    Zeros(Vec<f32>),
    /// code · scale + bias
    Biases(Vec<f32>),
}

/// Which codes share a scale.
pub(crate) enum Groups {
    /// One scale for each block of so many rows and inputs.
    Blocks { rows: usize, inputs: usize },
    /// One scale for each row and group; the group of each input.
    Order(Vec<u32>),
}

/// Unpacks the rows of a matrix.
pub(crate) struct Unpack {
    /// Outputs.
    pub rows: usize,
    pub inputs: usize,
    pub codes: Codes,
    /// Row by row, so many in each.
    pub scales: Vec<f32>,
    pub columns: usize,
    /// One for each scale.
    pub offsets: Offsets,
    pub groups: Groups,
}

impl Unpack {
    /// The values of the rows from `first` on: as many as `out` has. `bytes` are the codes of those rows, or of the whole matrix if
    /// they are not stored row by row.
    pub fn rows(&self, first: usize, bytes: &[u8], out: &mut [f32]) {
        self.read(first, bytes, out);
        for (index, row) in out.chunks_exact_mut(self.inputs).enumerate() {
            self.scale(first + index, row);
        }
    }

    fn read(&self, first: usize, bytes: &[u8], out: &mut [f32]) {
        let inputs = self.inputs;
        let word = |at: usize| bytes.as_chunks().0.get(at).map_or(0, |bytes| u32::from_le_bytes(*bytes));
        match self.codes {
            Codes::Bytes(table) => {
                out.iter_mut().zip(bytes).for_each(|(value, code)| *value = table[usize::from(*code)]);
            }
            Codes::Rows { bits } => {
                let length = self.codes.row_bytes(inputs).unwrap_or(bytes.len()).max(1);
                for (row, bytes) in out.chunks_exact_mut(inputs).zip(bytes.chunks_exact(length)) {
                    stream(bytes, bits, row);
                }
            }
            Codes::Outputs => {
                let (words, last) = (self.rows / 8, first + out.len() / inputs);
                for column in first / 8..last.div_ceil(8) {
                    for input in 0..inputs {
                        let codes = word(input * words + column);
                        for row in first.max(8 * column)..last.min(8 * column + 8) {
                            let code = codes >> (4 * AWQ[row % 8]) & 15;
                            out[(row - first) * inputs + input] = code as f32;
                        }
                    }
                }
            }
            Codes::Inputs { bits } => {
                let (count, mask) = (32 / bits, (1 << bits) - 1);
                let rows = out.len() / inputs;
                for start in (0..inputs).step_by(count) {
                    for row in 0..rows {
                        let mut codes = word(start / count * self.rows + first + row);
                        for value in out[row * inputs..][start..inputs.min(start + count)].iter_mut() {
                            *value = (codes & mask) as f32;
                            codes = codes.checked_shr(bits as u32).unwrap_or(0);
                        }
                    }
                }
            }
        }
    }

    /// Scale the codes of a row.
    fn scale(&self, row: usize, values: &mut [f32]) {
        let value = |code: f32, at: usize| match &self.offsets {
            Offsets::None => code * self.scales[at],
            Offsets::Zeros(zeros) => (code - zeros[at]) * self.scales[at],
            Offsets::Biases(biases) => code * self.scales[at] + biases[at],
        };
        match &self.groups {
            Groups::Blocks { rows, inputs } => {
                let first = row / rows * self.columns;
                for (group, values) in values.chunks_mut(*inputs).enumerate() {
                    values.iter_mut().for_each(|code| *code = value(*code, first + group));
                }
            }
            Groups::Order(order) => {
                let first = row * self.columns;
                for (code, group) in values.iter_mut().zip(order) {
                    *code = value(*code, first + *group as usize);
                }
            }
        }
    }
}

/// Codes of `bits` bits, the lowest first.
fn stream(bytes: &[u8], bits: usize, out: &mut [f32]) {
    if bits == 4 {
        for (codes, byte) in out.chunks_mut(2).zip(bytes) {
            codes.iter_mut().zip([byte & 15, byte >> 4]).for_each(|(value, code)| *value = code.into());
        }
        return;
    }
    let byte = |at: usize| u16::from(bytes.get(at).copied().unwrap_or(0));
    for (index, value) in out.iter_mut().enumerate() {
        let at = index * bits;
        let pair = byte(at / 8) | byte(at / 8 + 1) << 8;
        *value = f32::from(pair >> (at % 8) & ((1 << bits) - 1));
    }
}

/// The codes of 32-bit words as f32, row by row: `columns` of them in each row, in order or in AWQ's order.
pub(crate) fn words(words: &[[u8; 4]], bits: usize, columns: usize, awq: bool) -> Vec<f32> {
    let per_word = 32 / bits;
    let one = |row: &[[u8; 4]]| {
        let code = |column: usize| {
            let at = column % per_word;
            let shift = if awq { 4 * AWQ[at] } else { (at * bits) as u32 };
            (u32::from_le_bytes(row[column / per_word]) >> shift & ((1u32 << bits) - 1)) as f32
        };
        (0..columns).map(code).collect::<Vec<f32>>()
    };
    words.chunks_exact(columns.div_ceil(per_word).max(1)).flat_map(one).collect()
}

/// A matrix of `columns` columns with rows and columns exchanged.
pub(crate) fn transposed<T: Copy>(values: &[T], columns: usize) -> Vec<T> {
    let rows = values.len() / columns.max(1);
    (0..columns).flat_map(|column| (0..rows).map(move |row| values[row * columns + column])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_the_values_of_the_standard() {
        for (code, value) in [
            (0x00, 0.0),
            (0x01, 0.001953125),
            (0x07, 0.013671875),
            (0x08, 0.015625),
            (0x38, 1.0),
            (0x7e, 448.0),
            (0xbc, -1.5),
        ] {
            assert_eq!(E4M3[code], value, "{code:#x}");
        }
        assert!(E4M3[0x80].to_bits() == (-0.0f32).to_bits() && E4M3[0x7f].is_nan() && E4M3[0xff].is_nan());
        assert_eq!((INT8[0x7f], INT8[0x80], INT8[0xff]), (127.0, -128.0, -1.0));
    }

    #[test]
    fn codes_may_cross_bytes() {
        for bits in 2..=8 {
            let codes: Vec<u64> = (0..16).map(|i| (i * 11 + 3) & ((1 << bits) - 1)).collect();
            let all =
                codes.iter().enumerate().fold(0u128, |all, (i, code)| all | u128::from(*code) << (i * bits));
            let mut out = [0.0; 16];
            stream(&all.to_le_bytes()[..2 * bits], bits, &mut out);
            assert_eq!(out.map(|code| code as u64).to_vec(), codes, "{bits} bits");
        }
    }
}
