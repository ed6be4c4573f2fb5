//! The type of keys and values in the caches of the CPU decoder.

use super::WeightType;

/// Values of 8-bit keys or values that share a scale.
const BLOCK: usize = 32;

/// Bytes of a token's keys and values in f32 from which `Auto` takes f16: in smaller models they are a small part of a pass.
const LARGE: usize = 16 << 10;

/// Type of the keys and values that are kept of each token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum KvType {
    /// On the CPU f32 for small models and with f32 weights, else f16; on an accelerator its compute type.
    #[default]
    Auto,
    F32,
    F16,
    /// 8-bit blocks of 32, the last one of a head perhaps shorter.
    Q8_0,
}

impl KvType {
    /// All types but `Auto`, from the largest to the smallest.
    pub const ALL: [KvType; 3] = [KvType::F32, KvType::F16, KvType::Q8_0];

    /// The name, as in `--kv-type`.
    pub fn name(self) -> &'static str {
        match self {
            KvType::Auto => "auto",
            KvType::F32 => "f32",
            KvType::F16 => "f16",
            KvType::Q8_0 => "q8_0",
        }
    }

    /// Bytes of the keys of one head and token, or of its values.
    pub(crate) fn head_bytes(self, head_dim: usize) -> usize {
        match self {
            KvType::Auto | KvType::F32 => 4 * head_dim,
            KvType::F16 => 2 * head_dim,
            KvType::Q8_0 => head_dim + head_dim.div_ceil(BLOCK) * size_of::<f32>(),
        }
    }

    /// Bytes of one token in `heads` heads: the key heads and the value heads of all layers.
    pub fn token_bytes(self, heads: usize, head_dim: usize) -> usize {
        heads * self.head_bytes(head_dim)
    }

    /// The type for a model with so many heads ([`Self::token_bytes`]) and such weights on the CPU; never `Auto`. 8-bit heads are
    /// whole words of four values, else they are f16.
    pub fn fitting(self, heads: usize, head_dim: usize, dtype: WeightType) -> Self {
        match self {
            KvType::Auto if dtype == WeightType::F32 || KvType::F32.token_bytes(heads, head_dim) < LARGE => {
                KvType::F32
            }
            KvType::Auto => KvType::F16,
            KvType::Q8_0 if !head_dim.is_multiple_of(4) => KvType::F16,
            other => other,
        }
    }
}

impl std::str::FromStr for KvType {
    type Err = String;

    /// Parse a name, in upper or lower case.
    fn from_str(text: &str) -> Result<Self, String> {
        let lower = text.to_lowercase();
        let mut all = [KvType::Auto].into_iter().chain(Self::ALL);
        all.find(|kind| kind.name() == lower)
            .ok_or_else(|| format!("expected one of: auto, {}", Self::ALL.map(KvType::name).join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Heads of 36 layers with 2 key and 2 value heads, each 128 wide, as in Qwen2.5-VL-3B; and of a tiny model.
    const LARGE_MODEL: (usize, usize) = (36 * 2 * 2, 128);
    const TINY_MODEL: (usize, usize) = (2 * 2 * 2, 16);

    #[test]
    fn auto_is_f16_for_large_models_with_rounded_weights() {
        for ((heads, head_dim), dtype, want) in [
            (TINY_MODEL, WeightType::Q8_0, KvType::F32),
            (LARGE_MODEL, WeightType::Q8_0, KvType::F16),
            (LARGE_MODEL, WeightType::Auto, KvType::F16),
            (LARGE_MODEL, WeightType::F32, KvType::F32),
        ] {
            assert_eq!(KvType::Auto.fitting(heads, head_dim, dtype), want);
            for asked in KvType::ALL {
                assert_eq!(asked.fitting(heads, head_dim, dtype), asked);
            }
        }
        assert_eq!(KvType::Q8_0.fitting(8, 18, WeightType::Q8_0), KvType::F16);
    }

    #[test]
    fn sizes_are_those_of_the_formats() {
        let (heads, head_dim) = LARGE_MODEL;
        assert_eq!(KvType::F32.token_bytes(heads, head_dim), 36 * 2 * 2 * 128 * 4);
        assert_eq!(KvType::F16.token_bytes(heads, head_dim) * 2, KvType::F32.token_bytes(heads, head_dim));
        assert_eq!(KvType::Q8_0.head_bytes(128), 128 + 4 * 4);
        assert_eq!(KvType::Q8_0.head_bytes(80), 80 + 3 * 4);
    }

    #[test]
    fn names_round_trip() {
        for kind in KvType::ALL.into_iter().chain([KvType::Auto]) {
            assert_eq!(kind.name().to_uppercase().parse(), Ok(kind));
        }
        assert!("bf16".parse::<KvType>().unwrap_err().contains("auto, f32, f16, q8_0"));
    }
}
