//! Which GGUF files are which family.
//!
//! A new family is a file next to this one with its `Architecture`, which is listed in `SUPPORTED`.

use super::{GgufFile, family::Architecture, gemma4, minicpmv4_6, qwen2_vl, qwen3_5, qwen3_vl, smolvlm};

pub(crate) static SUPPORTED: [Architecture; 9] = [
    qwen2_vl::QWEN2_VL,
    qwen2_vl::QWEN25_VL,
    qwen3_vl::QWEN3_VL,
    qwen3_vl::MOE,
    qwen3_5::QWEN3_5,
    qwen3_5::MOE,
    minicpmv4_6::MINICPMV4_6,
    smolvlm::SMOLVLM,
    gemma4::GEMMA4,
];

/// The architecture of every mmproj file.
pub const TOWER: &str = "clip";

/// The supported architectures of language models with their families, for messages.
pub(crate) fn supported_text() -> String {
    let mut families: Vec<(&str, Vec<&str>)> = Vec::new();
    for row in &SUPPORTED {
        match families.iter_mut().find(|(text, _)| *text == row.text) {
            Some((_, names)) => names.push(row.family),
            None => families.push((row.text, vec![row.family])),
        }
    }
    families
        .iter()
        .map(|(text, names)| format!("{text} ({})", names.join(", ")))
        .collect::<Vec<_>>()
        .join(", ")
}

/// True for the architecture of a language model of a supported family.
pub fn is_supported(text: &str) -> bool {
    SUPPORTED.iter().any(|row| row.text == text)
}

/// True for an architecture that language models without video also have.
pub fn is_shared(text: &str) -> bool {
    SUPPORTED.iter().any(|row| row.text == text && row.shared)
}

/// Why an architecture is refused.
pub fn unsupported(text: &str) -> String {
    format!("unsupported architecture `{text}`, expected one of: {}", supported_text())
}

/// The supported projectors with their families, for messages.
pub(crate) fn supported_projectors() -> String {
    projectors(|_| true)
}

/// Those that belong to language models of an architecture.
pub(crate) fn projectors_of(text: &str) -> String {
    projectors(|row| row.text == text)
}

fn projectors(is_meant: impl Fn(&Architecture) -> bool) -> String {
    let meant = SUPPORTED.iter().filter(|row| is_meant(row));
    let mut all: Vec<_> = meant.map(|row| format!("{} ({})", row.projector, row.family)).collect();
    all.dedup();
    all.join(", ")
}

/// The projector type of an mmproj file; empty if it has none.
pub(crate) fn projector_of(file: &GgufFile) -> Result<&str, String> {
    let named = file.metadata.string("clip.projector_type")?;
    Ok(named.or(file.metadata.string("clip.vision.projector_type")?).unwrap_or_default())
}
