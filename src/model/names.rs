//! Tensor names in the different checkpoint layouts.
//!
//! This crate uses one name per tensor: `model.…`, `lm_head.weight`, `visual.…` (the towers of Qwen-VL), `vision_tower.…`,
//! `multi_modal_projector.…`, `image_newline` (LLaVA-OneVision). Files contain
//!
//! | family | as first published | as saved by newer versions of transformers |
//! |---|---|---|
//! | Qwen2-VL, Qwen2.5-VL | `model.…`, `visual.…` | `model.language_model.…`, `model.visual.…` |
//! | LLaVA-OneVision | `language_model.model.…`, `language_model.lm_head.weight`, `vision_tower.vision_model.…`, `image_newline` | `model.language_model.…`, `lm_head.weight`, `model.vision_tower.…`, `model.image_newline` |
//!
//! where the newest versions leave `vision_model.` out of the tower's names.

/// The tower whose names may have one more component.
const TOWER: &str = "vision_tower";
/// That component.
const INNER: &str = "vision_model.";

/// The names of a tensor in all layouts, in the order in which they are tried.
pub fn spellings(name: &str) -> Vec<String> {
    if let Some(rest) = name.strip_prefix("model.") {
        return vec![
            name.to_owned(),
            format!("model.language_model.{rest}"),
            format!("language_model.model.{rest}"),
        ];
    }
    if let Some(rest) = name.strip_prefix(TOWER).and_then(|rest| rest.strip_prefix('.')) {
        let inner = format!("{TOWER}.{INNER}{rest}");
        return vec![inner.clone(), format!("model.{inner}"), name.to_owned(), format!("model.{name}")];
    }
    vec![name.to_owned(), format!("model.{name}"), format!("language_model.{name}")]
}

/// The rest of a tensor name below one of this crate's prefixes (`visual`, `vision_tower`, …); none for other names.
pub fn below<'n>(name: &'n str, prefix: &str) -> Option<&'n str> {
    let name = name.strip_prefix("model.").unwrap_or(name);
    let rest = name.strip_prefix(prefix)?.strip_prefix('.')?;
    Some(rest.strip_prefix(INNER).filter(|_| prefix == TOWER).unwrap_or(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_layout_is_tried() {
        let tried = |name: &str, file: &str| spellings(name).iter().any(|tried| tried == file);
        for (name, files) in [
            (
                "model.norm.weight",
                &["model.language_model.norm.weight", "language_model.model.norm.weight"][..],
            ),
            ("lm_head.weight", &["lm_head.weight", "language_model.lm_head.weight"]),
            ("image_newline", &["image_newline", "model.image_newline"]),
            ("visual.a", &["visual.a", "model.visual.a"]),
            ("vision_tower.a", &["vision_tower.vision_model.a", "model.vision_tower.vision_model.a"]),
            ("vision_tower.a", &["vision_tower.a", "model.vision_tower.a"]),
        ] {
            assert!(files.iter().all(|file| tried(name, file)), "{name}");
        }
        assert!(!tried("visual.a", "model.language_model.a"));
    }

    #[test]
    fn prefixes_are_whole_words() {
        for file in
            ["vision_tower.vision_model.a.b", "model.vision_tower.vision_model.a.b", "vision_tower.a.b"]
        {
            assert_eq!(below(file, "vision_tower"), Some("a.b"), "{file}");
        }
        assert_eq!(below("model.visual.blocks.0", "visual"), Some("blocks.0"));
        assert_eq!(below("visual.vision_model.a", "visual"), Some("vision_model.a"));
        assert_eq!(below("visuals.a", "visual"), None);
        assert_eq!(below("model.layers.0", "visual"), None);
    }
}
