//! The types of tensors in GGUF files.

use specreel_tensor::cpu::kernels::{BlockKind, HalfKind};

/// A supported type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TensorType {
    /// 32-bit floats.
    F32,
    /// 16-bit floats.
    Half(HalfKind),
    /// Quantised blocks.
    Blocks(BlockKind),
}

/// Names of all types by their number in files.
const NAMES: [(u32, &str); 35] = [
    (0, "F32"),
    (1, "F16"),
    (2, "Q4_0"),
    (3, "Q4_1"),
    (6, "Q5_0"),
    (7, "Q5_1"),
    (8, "Q8_0"),
    (9, "Q8_1"),
    (10, "Q2_K"),
    (11, "Q3_K"),
    (12, "Q4_K"),
    (13, "Q5_K"),
    (14, "Q6_K"),
    (15, "Q8_K"),
    (16, "IQ2_XXS"),
    (17, "IQ2_XS"),
    (18, "IQ3_XXS"),
    (19, "IQ1_S"),
    (20, "IQ4_NL"),
    (21, "IQ3_S"),
    (22, "IQ2_S"),
    (23, "IQ4_XS"),
    (24, "I8"),
    (25, "I16"),
    (26, "I32"),
    (27, "I64"),
    (28, "F64"),
    (29, "IQ1_M"),
    (30, "BF16"),
    (34, "TQ1_0"),
    (35, "TQ2_0"),
    (39, "MXFP4"),
    (40, "NVFP4"),
    (41, "Q1_0"),
    (42, "Q2_0"),
];

impl TensorType {
    /// All supported types.
    pub const ALL: [Self; 8] = [
        Self::F32,
        Self::Half(HalfKind::F16),
        Self::Half(HalfKind::Bf16),
        Self::Blocks(BlockKind::Q8_0),
        Self::Blocks(BlockKind::Q6K),
        Self::Blocks(BlockKind::Q5K),
        Self::Blocks(BlockKind::Q4K),
        Self::Blocks(BlockKind::Q4_0),
    ];

    /// The type of this number.
    /// Errors: the name of the type.
    pub(super) fn of(number: u32) -> Result<Self, String> {
        let name = NAMES.iter().find(|named| named.0 == number).map(|named| named.1);
        let found =
            name.and_then(|name| Self::ALL.into_iter().find(|kind| kind.name().eq_ignore_ascii_case(name)));
        found.ok_or_else(|| name.map_or_else(|| format!("type {number}"), str::to_owned))
    }

    /// The names of all supported types, comma-separated.
    pub fn supported() -> String {
        Self::ALL.map(|kind| kind.name().to_uppercase()).join(", ")
    }

    /// The name, as in `--dtype`.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Half(HalfKind::F16) => "f16",
            Self::Half(HalfKind::Bf16) => "bf16",
            Self::Blocks(BlockKind::Q8_0) => "q8_0",
            Self::Blocks(BlockKind::Q6K) => "q6_k",
            Self::Blocks(BlockKind::Q5K) => "q5_k",
            Self::Blocks(BlockKind::Q4K) => "q4_k",
            Self::Blocks(BlockKind::Q4_0) => "q4_0",
        }
    }

    /// Values of a block; 1 for floats.
    pub fn block(self) -> usize {
        if let Self::Blocks(kind) = self { kind.values() } else { 1 }
    }

    /// Bytes of a block or float.
    pub fn block_bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::Half(_) => 2,
            Self::Blocks(kind) => kind.bytes(),
        }
    }

    /// Bytes of `values` values (whole blocks); none on overflow.
    pub fn bytes(self, values: usize) -> Option<usize> {
        (values / self.block()).checked_mul(self.block_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_found_by_number_and_others_are_named() {
        for (number, name) in [
            (0, "f32"),
            (1, "f16"),
            (2, "q4_0"),
            (8, "q8_0"),
            (12, "q4_k"),
            (13, "q5_k"),
            (14, "q6_k"),
            (30, "bf16"),
        ] {
            assert_eq!(TensorType::of(number).map(TensorType::name), Ok(name));
        }
        assert_eq!([23, 4].map(TensorType::of), [Err("IQ4_XS".into()), Err("type 4".into())]);
        assert_eq!(TensorType::supported(), "F32, F16, BF16, Q8_0, Q6_K, Q5_K, Q4_K, Q4_0");
        assert_eq!(
            NAMES.iter().filter(|named| TensorType::of(named.0).is_ok()).count(),
            TensorType::ALL.len()
        );
    }
}
