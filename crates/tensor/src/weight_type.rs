//! Weight types: their size, and the fallback for a matrix whose rows do not divide into blocks.

/// Weight type of the language model's matrices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WeightType {
    /// q8_0 on the CPU, bf16 on an accelerator.
    #[default]
    Auto,
    /// 32-bit floats.
    F32,
    /// 16-bit floats.
    F16,
    /// bfloat16.
    Bf16,
    /// 8-bit blocks of 32.
    Q8_0,
    /// 6-bit blocks of 256.
    Q6K,
    /// 5-bit blocks of 256.
    Q5K,
    /// 4-bit blocks of 256.
    Q4K,
    /// 4-bit blocks of 32.
    Q4_0,
}

impl WeightType {
    /// All types but `Auto`, from the largest to the smallest; those of one size by quality.
    pub const ALL: [WeightType; 8] = [
        WeightType::F32,
        WeightType::Bf16,
        WeightType::F16,
        WeightType::Q8_0,
        WeightType::Q6K,
        WeightType::Q5K,
        WeightType::Q4K,
        WeightType::Q4_0,
    ];

    /// The types that a vision tower may have on the CPU.
    pub const TOWERS: [WeightType; 4] =
        [WeightType::F32, WeightType::Bf16, WeightType::F16, WeightType::Q8_0];

    /// The type of a vision tower on the CPU if this one was requested, beside a language model of type `self`. `Auto` is q8_0,
    /// and f32 beside a language model that was requested in f32.
    pub fn tower(self, requested: WeightType) -> WeightType {
        match requested {
            WeightType::Auto if self == WeightType::F32 => WeightType::F32,
            WeightType::Auto => WeightType::Q8_0,
            other => other,
        }
    }

    /// The name, as in `--dtype`.
    pub fn name(self) -> &'static str {
        match self {
            WeightType::Auto => "auto",
            WeightType::F32 => "f32",
            WeightType::F16 => "f16",
            WeightType::Bf16 => "bf16",
            WeightType::Q8_0 => "q8_0",
            WeightType::Q6K => "q6_k",
            WeightType::Q5K => "q5_k",
            WeightType::Q4K => "q4_k",
            WeightType::Q4_0 => "q4_0",
        }
    }

    /// Values per block; a row must be a whole number of blocks.
    pub fn block(self) -> usize {
        match self {
            WeightType::F32 | WeightType::F16 | WeightType::Bf16 => 1,
            WeightType::Q8_0 | WeightType::Q4_0 | WeightType::Auto => 32,
            WeightType::Q6K | WeightType::Q5K | WeightType::Q4K => 256,
        }
    }

    /// The type of a matrix with rows of `inputs` values on the CPU: this one if its blocks divide the rows, else q8_0, else
    /// f32.
    pub fn fitting(self, inputs: usize) -> Self {
        let requested = if self == WeightType::Auto { WeightType::Q8_0 } else { self };
        [requested, WeightType::Q8_0]
            .into_iter()
            .find(|dtype| inputs.is_multiple_of(dtype.block()))
            .unwrap_or(WeightType::F32)
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
            (W::Q4K, 896, W::Q8_0),
            (W::Q5K, 29568, W::Q8_0),
            (W::Q4_0, 896, W::Q4_0),
            (W::Q6K, 100, W::F32),
            (W::Bf16, 100, W::Bf16),
        ] {
            assert_eq!(requested.fitting(inputs), held, "{requested:?} {inputs}");
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
