//! The quantized types: blocks of integers with scales, as GGUF files have them.
//!
//! A type is a file here with all that is particular to it, and a line of `block_types` below. Kernels for x86-64 and a
//! GPU's shader are optional parts of it, written where the others are.

use candle_core::quantized::{GgmlDType, GgmlType};

#[cfg(target_arch = "x86_64")]
use crate::cpu::kernels::X86Kernels;
use crate::{TensorType, cpu::kernels::HalfKind, gpu::matrix::format::Array};

/// What is particular to a quantized type.
pub(crate) trait BlockType {
    /// Its name, as in `--dtype`.
    const NAME: &'static str;
    /// Its number in GGUF files.
    const NUMBER: u32;
    /// Values of a block: 32 or 256.
    const VALUES: usize;
    /// Bytes of a block.
    const BYTES: usize;
    /// Values of a part of a block, which has a scale of its own.
    const PART: usize = 32;
    /// The stored integer that stands for zero.
    const ZERO: i16 = 0;
    /// True if parts have minima.
    const MINIMA: bool = false;
    /// How values are quantized; a type without this is read from files only, and is no weight type.
    const QUANTIZER: Option<Quantizer>;
    /// Its arrays on a GPU, in the order of the kernels' bindings.
    const ARRAYS: &'static [Array];
    /// The part of a GPU's kernels that reads its arrays and adds products.
    const SHADER: &'static str;
    /// Its kernels for x86-64. What is missing is computed by slower ones, to the same bits.
    #[cfg(target_arch = "x86_64")]
    const X86: X86Kernels = X86Kernels::NONE;
    /// Where a block has 16-bit floats.
    #[cfg(test)]
    const HALVES: &'static [usize] = &[0];

    /// The numbers of a block of [`BlockType::BYTES`] bytes. What the type does not have stays as it is.
    fn unpack(block: &[u8], to: &mut Unpacked);

    /// Fill a block with the largest integers, scales and minima.
    #[cfg(test)]
    fn fill_largest(block: &mut [u8]) {
        block.fill(0xff);
    }
}

/// The numbers of a block: value `i` in part `j` is `scale * scales[j] * (quants[i] - ZERO) - minimum * minima[j]`.
pub(crate) struct Unpacked {
    /// The integers as they are stored.
    pub quants: [i16; 256],
    pub scale: f32,
    pub scales: [i8; 16],
    pub minimum: f32,
    pub minima: [u8; 16],
}

impl Default for Unpacked {
    fn default() -> Self {
        Self { quants: [0; 256], scale: 0.0, scales: [1; 16], minimum: 0.0, minima: [1; 16] }
    }
}

/// How candle quantizes values to a type.
#[derive(Clone, Copy)]
pub(crate) struct Quantizer {
    /// candle's name of the type.
    pub dtype: GgmlDType,
    /// Quantize values to as many blocks, as bytes.
    pub(crate) quantize: fn(&[f32], &mut [u8]),
}

impl Quantizer {
    const fn of<T: GgmlType>() -> Self {
        Self { dtype: T::DTYPE, quantize: quantize::<T> }
    }
}

fn quantize<T: GgmlType>(values: &[f32], bytes: &mut [u8]) {
    assert!(values.len().is_multiple_of(T::BLCK_SIZE), "the values are not whole blocks");
    let mut blocks = vec![T::zeros(); values.len() / T::BLCK_SIZE];
    T::from_float(values, &mut blocks);
    // SAFETY: the blocks are bytes and half-precision floats without padding (`repr(C)`, sizes as of `BlockType::BYTES`).
    bytes.copy_from_slice(unsafe {
        std::slice::from_raw_parts(blocks.as_ptr().cast(), size_of_val(blocks.as_slice()))
    });
}

/// The half-precision float at a byte.
fn half_at(block: &[u8], at: usize) -> f32 {
    half::f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}

/// Declare the types, from the largest to the smallest; those of one size by quality.
macro_rules! block_types {
    ($d:tt $($(#[$doc:meta])* $module:ident::$name:ident,)+) => {
        $(
            mod $module;
            pub(crate) use $module::$name;
        )+

        /// A quantized type.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum BlockKind {
            $($(#[$doc])* $name,)+
        }

        impl BlockKind {
            /// All types, from the largest to the smallest.
            pub const ALL: [Self; [$(stringify!($name)),+].len()] = [$(Self::$name),+];
        }

        impl TensorType {
            /// All types.
            pub const ALL: [Self; 3 + BlockKind::ALL.len()] = [
                Self::F32,
                Self::Half(HalfKind::F16),
                Self::Half(HalfKind::Bf16),
                $(Self::Blocks(BlockKind::$name)),+
            ];
        }

        /// Evaluate an expression in which a name stands for the [`BlockType`] of a [`BlockKind`].
        macro_rules! with_type {
            ($d kind:expr, $d name:ident => $d body:expr) => {
                match $d kind {
                    $($crate::quant::BlockKind::$name => {
                        type $d name = $crate::quant::$name;
                        $d body
                    })+
                }
            };
        }
        pub(crate) use with_type;
    };
}

block_types! { $
    /// 8 bits, 32 values with one scale.
    q8_0::Q8_0,
    /// 6 bits, 256 values with sixteen scales.
    q6_k::Q6K,
    /// 5 bits, 256 values with eight scales and minima.
    q5_k::Q5K,
    /// 4 bits, 256 values with eight scales and minima.
    q4_k::Q4K,
    /// 4 bits, 32 values with one scale.
    q4_0::Q4_0,
}

impl BlockKind {
    /// Its name, as in `--dtype`.
    pub const fn name(self) -> &'static str {
        with_type!(self, T => T::NAME)
    }

    /// The type of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Values of a block.
    pub const fn values(self) -> usize {
        with_type!(self, T => T::VALUES)
    }

    /// Bytes of a block.
    pub const fn bytes(self) -> usize {
        with_type!(self, T => T::BYTES)
    }

    /// How values are quantized, if they can be.
    pub(crate) const fn quantizer(self) -> Option<Quantizer> {
        with_type!(self, T => T::QUANTIZER)
    }

    /// Unpack a block.
    pub(crate) fn unpack(self, block: &[u8], to: &mut Unpacked) {
        with_type!(self, T => T::unpack(block, to));
    }
}
