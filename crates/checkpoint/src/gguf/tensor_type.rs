//! The types of tensors in GGUF files.

use specreel_tensor::TensorType;

/// Names of the types that are not supported, by their number in files.
const UNSUPPORTED: [(u32, &str); 12] = [
    (9, "Q8_1"),
    (15, "Q8_K"),
    (24, "I8"),
    (25, "I16"),
    (26, "I32"),
    (27, "I64"),
    (28, "F64"),
    (34, "TQ1_0"),
    (35, "TQ2_0"),
    (40, "NVFP4"),
    (41, "Q1_0"),
    (42, "Q2_0"),
];

/// The type of this number. The error names a type that is not supported.
pub(super) fn numbered(number: u32) -> Result<TensorType, String> {
    let name = || UNSUPPORTED.iter().find(|named| named.0 == number);
    let found = TensorType::ALL.into_iter().find(|kind| kind.number() == number);
    found.ok_or_else(|| name().map_or_else(|| format!("type {number}"), |named| named.1.to_owned()))
}

/// The names of all supported types, comma-separated.
pub(super) fn supported() -> String {
    TensorType::ALL.map(|kind| kind.name().to_uppercase()).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_that_are_not_supported_are_named() {
        assert_eq!([34, 4].map(numbered), [Err("TQ1_0".into()), Err("type 4".into())]);
        assert!(supported().starts_with("F32, F16, BF16, Q8_0, Q6_K, Q5_1"));
        assert!(UNSUPPORTED.iter().all(|named| numbered(named.0).is_err()));
    }
}
