//! The quantized types: blocks of integers with scales, as GGUF files have them.
//!
//! A type is a file here with all that is particular to it, and a line of `block_types` below. Its kernels for x86-64 and a
//! GPU's shader are written where the others are.

mod codebook;
#[cfg_attr(not(feature = "gpu"), expect(dead_code, reason = "without GPUs only sizes are computed"))]
pub(crate) mod panels;
pub(crate) mod quantize;

use panels::Array;
use quantize::Quantizer;

#[cfg(target_arch = "x86_64")]
use crate::cpu::kernels::{Avx512Kernel, block_kernels};
use crate::{TensorType, cpu::kernels::HalfKind};

/// What is particular to a quantized type.
pub(crate) trait BlockType: Sized {
    /// Its name, as in `--dtype`.
    const NAME: &'static str;
    /// The type's number in GGUF files.
    const NUMBER: u32;
    /// Values of a block: 32 or 256.
    const VALUES: usize;
    /// Bytes of a block.
    const BYTES: usize;
    /// Values of a part of a block, which has a scale of its own.
    const PART: usize = 32;
    /// The stored integer that stands for zero.
    const ZERO: i8 = 0;
    /// True if the integers are signed.
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    const SIGNED: bool = Self::TABLE.is_some();
    /// All integers of a type that has at most sixteen. They are signed.
    const TABLE: Option<[i8; 16]> = None;
    /// For blocks of 32 values with four bits each: true if there is a fifth, see [`unpack_nibbles`].
    const FIFTHS: bool = false;
    /// True if parts have minima.
    const MINIMA: bool = false;
    /// Where a block has 16-bit floats: its scale, and the scale of the minima; empty if the scale is not such a float.
    const HALVES: &'static [usize] = if Self::MINIMA { &[0, 2] } else { &[0] };
    /// What a file's scale is multiplied by, so that integers and scales of parts are whole.
    const UNIT: f32 = 1.0;
    /// How values are quantized; a type without this is read from files only, and is no weight type.
    const QUANTIZER: Option<Quantizer> = None;
    /// Arrays on a GPU, in the order of the kernels' bindings; by default as for a type with a table.
    const ARRAYS: &'static [Array] = match (Self::VALUES, Self::PART) {
        (32, _) => &[Array::indices::<Self>(), Array::SCALE],
        (_, 32) => &[Array::indices::<Self>(), Array::SCALES, Array::SCALE_OF_EIGHT],
        _ => &[Array::indices::<Self>(), Array::SCALES_OF_HALVES, Array::SCALE_OF_EIGHT],
    };
    /// The part of a GPU's kernels that reads its arrays and adds products.
    #[cfg_attr(not(feature = "gpu"), expect(dead_code, reason = "a part of a GPU's kernels"))]
    const SHADER: &'static str = match (Self::VALUES, Self::PART) {
        (32, _) => include_str!("../gpu/shaders/block_iq4_nl.wgsl"),
        (_, 32) => include_str!("../gpu/shaders/block_iq4_xs.wgsl"),
        _ => include_str!("../gpu/shaders/block_iq2_xs.wgsl"),
    };
    /// What kernels add to the integers so that they are not negative; a power of two, or 0.
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    const OFFSET: i32 = if Self::SIGNED { 128 } else { Self::ZERO as i32 };

    /// The numbers of a block of [`BlockType::BYTES`] bytes. Fields that the type lacks stay as they are.
    fn unpack(block: &[u8], to: &mut Unpacked);

    /// Fill a block with the largest integers, scales and minima.
    #[cfg(test)]
    fn fill_largest(block: &mut [u8]) {
        block.fill(0xff);
    }

    /// Set the scale of a block and the scale of its minima.
    #[cfg(test)]
    fn set_scales(block: &mut [u8], scale: f32) {
        for &at in Self::HALVES {
            block[at..at + 2].copy_from_slice(&half::f16::from_f32(scale).to_le_bytes());
        }
    }
}

/// The numbers of a block: value `i` in part `j` is `scale * scales[j] * (quants[i] - ZERO) - minimum * minima[j]`.
pub(crate) struct Unpacked {
    /// The integers as they are stored; with a [`BlockType::TABLE`], its indices.
    pub quants: [i8; 256],
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

/// Unpack 32 values of which the last 16 bytes of a block hold four bits each: byte `i` has the values `i` (low) and
/// `16 + i` (high). With [`BlockType::FIFTHS`] the four bytes before hold a fifth bit: bit `i` for value `i`.
fn unpack_nibbles<T: BlockType>(block: &[u8], to: &mut Unpacked) {
    let (head, nibbles) = block.split_at(T::BYTES - 16);
    let fifths = head.last_chunk().filter(|_| T::FIFTHS).map_or(0, |bits| u32::from_le_bytes(*bits));
    let value = |nibble: u8, i: usize| match T::TABLE {
        Some(table) => table[usize::from(nibble)],
        None => (nibble | ((fifths >> i & 1) << 4) as u8).cast_signed(),
    };
    for (i, byte) in nibbles.iter().enumerate() {
        (to.quants[i], to.quants[i + 16]) = (value(byte & 15, i), value(byte >> 4, i + 16));
    }
}

/// A block as an array, whose indices are checked when they are compiled.
fn sized<const N: usize>(block: &[u8]) -> &[u8; N] {
    block.first_chunk().unwrap_or_else(|| unreachable!("{} bytes for a block of {N}", block.len()))
}

/// Unpack the scale of a block and the scale of its minima, at [`BlockType::HALVES`].
fn unpack_scale<T: BlockType>(block: &[u8], to: &mut Unpacked) {
    to.scale = half_at(block, T::HALVES[0]) * T::UNIT;
    if T::MINIMA {
        to.minimum = half_at(block, T::HALVES[1]);
    }
}

/// The half-precision float at a byte.
fn half_at(block: &[u8], at: usize) -> f32 {
    half::f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}

/// Declare the types, from the largest to the smallest, and by quality within one size. Blocks of 32 values are narrow, blocks of 256
/// wide.
macro_rules! block_types {
    ($d:tt $($(#[$doc:meta])* $width:ident $module:ident::$name:ident,)+) => {
        $(
            mod $module;
            pub(crate) use $module::$name;
        )+

        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum BlockKind {
            $($(#[$doc])* $name,)+
        }

        impl BlockKind {
            /// All types, from the largest to the smallest.
            pub const ALL: [Self; [$(stringify!($name)),+].len()] = [$(Self::$name),+];

            /// The products with blocks row after row, and in panels.
            #[cfg(target_arch = "x86_64")]
            pub(crate) fn avx512(self) -> [Avx512Kernel; 2] {
                use block_kernels::{in_panels, in_rows};
                match self {
                    $(Self::$name => [in_rows::$width::<$name>, in_panels::$width::<$name>],)+
                }
            }
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
    narrow q8_0::Q8_0,
    /// 6 bits, 256 values with sixteen scales.
    wide q6_k::Q6K,
    /// 5 bits, 32 values with one scale and minimum.
    narrow q5_1::Q5_1,
    /// 5 bits, 256 values with eight scales and minima.
    wide q5_k::Q5K,
    /// 5 bits, 32 values with one scale.
    narrow q5_0::Q5_0,
    /// 4 bits, 32 values with one scale and minimum.
    narrow q4_1::Q4_1,
    /// 4 bits, 256 values with eight scales and minima.
    wide q4_k::Q4K,
    /// 4 bits by a table, 32 values with one scale.
    narrow iq4_nl::Iq4Nl,
    /// 4 bits, 32 values with one scale.
    narrow q4_0::Q4_0,
    /// 4 bits by a table, 256 values with eight scales.
    wide iq4_xs::Iq4Xs,
    /// 4-bit floats, 32 values with one scale.
    narrow mxfp4::Mxfp4,
    /// 3 bits, 256 values with sixteen scales.
    wide q3_k::Q3K,
    /// 3 bits by a codebook, 256 values with eight scales.
    wide iq3_s::Iq3S,
    /// 3 bits by a smaller codebook, 256 values with eight scales.
    wide iq3_xxs::Iq3Xxs,
    /// 2 bits, 256 values with sixteen scales and minima.
    wide q2_k::Q2K,
    /// 2 bits by a codebook, 256 values with sixteen scales.
    wide iq2_s::Iq2S,
    /// 2 bits by a smaller codebook, 256 values with sixteen scales.
    wide iq2_xs::Iq2Xs,
    /// 2 bits by the smallest codebook, 256 values with eight scales.
    wide iq2_xxs::Iq2Xxs,
    /// 1.75 bits by a codebook, 256 values with sixteen scales.
    wide iq1_m::Iq1M,
    /// 1.56 bits by a codebook, 256 values with eight scales.
    wide iq1_s::Iq1S,
}

pub(crate) use iq4_nl::IQ4;

impl BlockKind {
    /// Its name, as in `--dtype`.
    pub const fn name(self) -> &'static str {
        with_type!(self, T => T::NAME)
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    pub const fn values(self) -> usize {
        with_type!(self, T => T::VALUES)
    }

    pub const fn bytes(self) -> usize {
        with_type!(self, T => T::BYTES)
    }

    /// How values are quantized, if they can be.
    pub(crate) const fn quantizer(self) -> Option<Quantizer> {
        with_type!(self, T => T::QUANTIZER)
    }

    /// Unpack a block.
    #[cfg(feature = "gpu")]
    pub(crate) fn unpack(self, block: &[u8], to: &mut Unpacked) {
        with_type!(self, T => T::unpack(block, to));
    }

    /// Blocks of random numbers, with scales of at most `scale` that `random` (-1 to 1) gives.
    #[cfg(test)]
    pub(crate) fn random(self, blocks: usize, scale: f32, mut random: impl FnMut() -> f32) -> Vec<u8> {
        let mut bytes: Vec<u8> =
            (0..blocks * self.bytes()).map(|_| (random() * 32768.0) as i32 as u8).collect();
        for block in bytes.chunks_exact_mut(self.bytes()) {
            with_type!(self, T => T::set_scales(block, scale * random()));
        }
        bytes
    }
}
