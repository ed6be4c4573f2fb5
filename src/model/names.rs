//! The names that one tensor goes by in different checkpoints.
//!
//! The program asks by one name each: `model.…`, `lm_head.weight`, `visual.…` (the towers of Qwen-VL), `vision_tower.…`,
//! `multi_modal_projector.…`, `image_newline` (LLaVA-OneVision). Files hold
//!
//! | family | as first published | as newer versions of the reference hold them |
//! |---|---|---|
//! | Qwen2-VL, Qwen2.5-VL | `model.…`, `visual.…` | `model.language_model.…`, `model.visual.…` |
//! | LLaVA-OneVision | `language_model.model.…`, `language_model.lm_head.weight`, `vision_tower.vision_model.…`, `image_newline` | `model.language_model.…`, `lm_head.weight`, `model.vision_tower.…`, `model.image_newline` |
//!
//! with `vision_model.` left out of the tower's names by the newest ones.

/// The tower whose names may have one more part.
const TOWER: &str = "vision_tower";
/// That part.
const INNER: &str = "vision_model.";

/// The names under which a tensor may stand in a file, in the order in which they are tried.
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

/// What is left of a file's name below one of our prefixes (`visual`, `vision_tower`, …); none if it is not below it.
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
