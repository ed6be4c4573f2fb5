//! The types of tensors and weights: their size, and which type a matrix gets of the one that was requested.

use crate::{
    cpu::kernels::HalfKind,
    quant::{BlockKind, BlockType, with_type},
};

/// The type of a tensor's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TensorType {
    F32,
    Half(HalfKind),
    Blocks(BlockKind),
}

impl TensorType {
    /// The name, as in `--dtype`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Half(kind) => kind.name(),
            Self::Blocks(kind) => kind.name(),
        }
    }

    /// The type's number in GGUF files.
    pub fn number(self) -> u32 {
        match self {
            Self::F32 => 0,
            Self::Half(HalfKind::F16) => 1,
            Self::Half(HalfKind::Bf16) => 30,
            Self::Blocks(kind) => with_type!(kind, T => T::NUMBER),
        }
    }

    /// Values of a block, of which a row must have a whole number; 1 for floats.
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

/// What a matrix is to the quality of a quantized model. llama.cpp's quantizer keeps some at a higher type than the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Importance {
    /// A matrix like most.
    #[default]
    Usual,
    /// One of those in the first layers that are kept at 5 bits among 4.
    Early,
    Head,
    /// The router of a layer of experts, whose choice small differences change.
    Router,
}

/// Weight type of the language model's matrices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WeightType {
    /// q8_0 on the CPU, bf16 on an accelerator.
    #[default]
    Auto,
    Of(TensorType),
}

#[expect(non_upper_case_globals, reason = "they are as their types, which are described")]
impl WeightType {
    pub const F32: Self = Self::Of(TensorType::F32);
    pub const F16: Self = Self::Of(TensorType::Half(HalfKind::F16));
    pub const Bf16: Self = Self::Of(TensorType::Half(HalfKind::Bf16));
    pub const Q8_0: Self = Self::Of(TensorType::Blocks(BlockKind::Q8_0));
    pub const Q6K: Self = Self::Of(TensorType::Blocks(BlockKind::Q6K));
    pub const Q5_1: Self = Self::Of(TensorType::Blocks(BlockKind::Q5_1));
    pub const Q5K: Self = Self::Of(TensorType::Blocks(BlockKind::Q5K));
    pub const Q5_0: Self = Self::Of(TensorType::Blocks(BlockKind::Q5_0));
    pub const Q4_1: Self = Self::Of(TensorType::Blocks(BlockKind::Q4_1));
    pub const Q4K: Self = Self::Of(TensorType::Blocks(BlockKind::Q4K));
    pub const IQ4_NL: Self = Self::Of(TensorType::Blocks(BlockKind::Iq4Nl));
    pub const Q4_0: Self = Self::Of(TensorType::Blocks(BlockKind::Q4_0));
    pub const Q3K: Self = Self::Of(TensorType::Blocks(BlockKind::Q3K));
}

impl WeightType {
    /// The quantized types that weights can be converted to.
    const QUANTIZED: usize = {
        let (mut count, mut i) = (0, 0);
        while i < BlockKind::ALL.len() {
            count += BlockKind::ALL[i].quantizer().is_some() as usize;
            i += 1;
        }
        count
    };

    /// All types but `Auto`, from the largest to the smallest, and by quality within one size.
    pub const ALL: [WeightType; 3 + Self::QUANTIZED] = {
        let mut all = [Self::F32; 3 + Self::QUANTIZED];
        (all[1], all[2]) = (Self::Bf16, Self::F16);
        let (mut count, mut i) = (3, 0);
        while i < BlockKind::ALL.len() {
            if BlockKind::ALL[i].quantizer().is_some() {
                all[count] = Self::Of(TensorType::Blocks(BlockKind::ALL[i]));
                count += 1;
            }
            i += 1;
        }
        all
    };

    /// The types that a vision tower may have on the CPU.
    pub const TOWERS: [WeightType; 4] =
        [WeightType::F32, WeightType::Bf16, WeightType::F16, WeightType::Q8_0];

    /// The type of a vision tower on the CPU if this one was requested, for a language model of type `self`. `Auto` is q8_0,
    /// and f32 for a language model that was requested in f32.
    pub fn tower(self, requested: WeightType) -> WeightType {
        match requested {
            WeightType::Auto if self == WeightType::F32 => WeightType::F32,
            WeightType::Auto => WeightType::Q8_0,
            other => other,
        }
    }

    /// The name, as in `--dtype`.
    pub const fn name(self) -> &'static str {
        match self {
            WeightType::Auto => "auto",
            WeightType::Of(kind) => kind.name(),
        }
    }

    /// The type of a matrix if this one was requested: the head is at least q6_k, important matrices of early layers at least q5_k, and
    /// routers f32.
    pub fn kept(self, importance: Importance) -> WeightType {
        use BlockKind::{Iq4Nl, Q4K, Q8_0};
        match (importance, self) {
            (Importance::Head, Self::Of(TensorType::Blocks(kind))) if kind != Q8_0 => Self::Q6K,
            (Importance::Early, Self::Of(TensorType::Blocks(Q4K | Iq4Nl))) => Self::Q5K,
            (Importance::Router, _) => Self::F32,
            _ => self,
        }
    }

    /// The type of a matrix with rows of `inputs` values on the CPU: this one if its blocks divide the rows, else the one with
    /// blocks of 32 that llama.cpp falls back to, which is never smaller; f32 if those do not divide them either.
    pub fn fitting(self, inputs: usize) -> TensorType {
        use BlockKind::{Q3K, Q4_0, Q4K, Q5_0, Q5_1, Q5K, Q6K, Q8_0};
        let requested = if let Self::Of(kind) = self { kind } else { TensorType::Blocks(Q8_0) };
        let narrow = match requested {
            TensorType::Blocks(Q6K) => TensorType::Blocks(Q8_0),
            TensorType::Blocks(Q5K) => TensorType::Blocks(Q5_1),
            TensorType::Blocks(Q4K) => TensorType::Blocks(Q5_0),
            TensorType::Blocks(Q3K) => TensorType::Blocks(Q4_0),
            other => other,
        };
        let mut found = [requested, narrow].into_iter().filter(|kind| inputs.is_multiple_of(kind.block()));
        found.next().unwrap_or(TensorType::F32)
    }
}

impl std::str::FromStr for WeightType {
    type Err = String;

    /// Parse a name, in upper or lower case.
    fn from_str(text: &str) -> Result<Self, String> {
        let lower = text.to_lowercase();
        let mut all = [WeightType::Auto].into_iter().chain(Self::ALL);
        all.find(|dtype| dtype.name() == lower)
            .ok_or_else(|| format!("expected one of: auto, {}", Self::ALL.map(WeightType::name).join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_that_do_not_divide_fall_back() {
        use WeightType as W;
        for (requested, inputs, held) in [
            (W::Auto, 64, W::Q8_0),
            (W::Q4K, 3584, W::Q4K),
            (W::Q6K, 896, W::Q8_0),
            (W::Q5K, 29568, W::Q5_1),
            (W::Q4K, 896, W::Q5_0),
            (W::Q3K, 576, W::Q4_0),
            (W::Q4_0, 896, W::Q4_0),
            (W::Q6K, 100, W::F32),
            (W::Q4_1, 100, W::F32),
            (W::Bf16, 100, W::Bf16),
        ] {
            assert_eq!(W::Of(requested.fitting(inputs)), held, "{requested:?} {inputs}");
        }
    }

    #[test]
    fn important_matrices_are_kept_at_a_higher_type() {
        use Importance::{Early, Head, Router, Usual};
        use WeightType as W;
        for (requested, usual, early, head, router) in [
            (W::Auto, W::Auto, W::Auto, W::Auto, W::F32),
            (W::Bf16, W::Bf16, W::Bf16, W::Bf16, W::F32),
            (W::Q8_0, W::Q8_0, W::Q8_0, W::Q8_0, W::F32),
            (W::Q6K, W::Q6K, W::Q6K, W::Q6K, W::F32),
            (W::Q5K, W::Q5K, W::Q5K, W::Q6K, W::F32),
            (W::Q4K, W::Q4K, W::Q5K, W::Q6K, W::F32),
            (W::IQ4_NL, W::IQ4_NL, W::Q5K, W::Q6K, W::F32),
            (W::Q4_0, W::Q4_0, W::Q4_0, W::Q6K, W::F32),
            (W::Q3K, W::Q3K, W::Q3K, W::Q6K, W::F32),
        ] {
            let found = [Usual, Early, Head, Router].map(|importance| requested.kept(importance));
            assert_eq!(found, [usual, early, head, router], "{requested:?}");
        }
    }

    #[test]
    fn names_round_trip() {
        for dtype in WeightType::ALL {
            assert_eq!(dtype.name().to_uppercase().parse(), Ok(dtype));
        }
        assert_eq!("auto".parse(), Ok(WeightType::Auto));
        assert!("q9".parse::<WeightType>().unwrap_err().contains("q4_k"));
    }
}
