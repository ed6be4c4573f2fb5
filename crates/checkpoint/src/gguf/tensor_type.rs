//! The types of tensors in GGUF files.

use specreel_tensor::TensorType;

/// Names of the types that are not supported, by their number in files.
const UNSUPPORTED: [(u32, &str); 27] = [
    (3, "Q4_1"),
    (6, "Q5_0"),
    (7, "Q5_1"),
    (9, "Q8_1"),
    (10, "Q2_K"),
    (11, "Q3_K"),
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
    (34, "TQ1_0"),
    (35, "TQ2_0"),
    (39, "MXFP4"),
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
            assert_eq!(numbered(number).map(TensorType::name), Ok(name));
        }
        assert_eq!([23, 4].map(numbered), [Err("IQ4_XS".into()), Err("type 4".into())]);
        assert_eq!(supported(), "F32, F16, BF16, Q8_0, Q6_K, Q5_K, Q4_K, Q4_0");
        assert!(UNSUPPORTED.iter().all(|named| numbered(named.0).is_err()));
    }
}
