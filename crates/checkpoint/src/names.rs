//! Tensor names in the different checkpoint layouts.
//!
//! This crate uses one name per tensor: `model.…`, `lm_head.weight`, `visual.…` (the towers of Qwen-VL), `vision_tower.…`,
//! `multi_modal_projector.…`, `image_newline` (LLaVA-OneVision), `vision_model.…`, `connector.…` (SmolVLM2), `vision_tower.…`,
//! `merger.…` (MiniCPM-V). Files contain
//!
//! | family | as first published | as saved by newer versions of transformers |
//! |---|---|---|
//! | Qwen2-VL, Qwen2.5-VL | `model.…`, `visual.…` | `model.language_model.…`, `model.visual.…` |
//! | Qwen3-VL | `model.language_model.…`, `model.visual.…` | the same |
//! | SmolVLM2 | `model.text_model.…`, `lm_head.weight`, `model.vision_model.…`, `model.connector.…` | the same |
//! | MiniCPM-V 4.6 | `model.language_model.…`, `model.vision_tower.…`, `model.merger.…` | the same |
//! | layers for multi-token prediction | `mtp.…`, or `model.mtp.…` | the same |
//! | DFlash heads | `layers.N.…`, `norm.weight` | the same |
//! | EAGLE-3 heads | `midlayer.…` or `layers.0.…` for `model.layers.0.…`, `norm.weight` | the same |
//! | Qwen-VL as saved by mlx-vlm | `language_model.model.…`, `language_model.lm_head.weight`, `vision_tower.…` | the same |
//! | LLaVA-OneVision | `language_model.model.…`, `language_model.lm_head.weight`, `vision_tower.vision_model.…`, `image_newline` | `model.language_model.…`, `lm_head.weight`, `model.vision_tower.…`, `model.image_newline` |
//!
//! where the newest versions leave `vision_model.` out of the tower's names. Some of them (5.5) write `language_model.` up to three
//! times in front of the text's names, and in front of the tower's: `model.language_model.visual.…`.

/// The tower whose names may have one more component.
const TOWER: &str = "vision_tower";
const INNER: &str = "vision_model.";
/// What may be repeated in front of any name, and how often.
const REPEATED: &str = "language_model.";
const MOST_REPEATED: usize = 3;

/// The names of a tensor in all layouts, in the order in which they are tried.
pub(crate) fn spellings(name: &str) -> Vec<String> {
    let mut names = usual(name);
    let rest = name.strip_prefix("model.").unwrap_or(name);
    names.extend((1..=MOST_REPEATED).map(|times| format!("model.{}{rest}", REPEATED.repeat(times))));
    names
}

fn usual(name: &str) -> Vec<String> {
    if let Some(rest) = name.strip_prefix("model.") {
        let mut names = vec![
            name.to_owned(),
            format!("language_model.model.{rest}"),
            format!("model.text_model.{rest}"),
            rest.to_owned(),
        ];
        names.extend(rest.strip_prefix("layers.0.").map(|part| format!("midlayer.{part}")));
        return names;
    }
    if let Some(rest) = name.strip_prefix(TOWER).and_then(|rest| rest.strip_prefix('.')) {
        let inner = format!("{TOWER}.{INNER}{rest}");
        return vec![inner.clone(), format!("model.{inner}"), name.to_owned(), format!("model.{name}")];
    }
    let mut names = vec![name.to_owned(), format!("model.{name}"), format!("language_model.{name}")];
    names.extend(name.strip_prefix("visual.").map(|rest| format!("{TOWER}.{rest}")));
    names
}

/// The name of a tensor in a part of a checkpoint: `PART.` takes the place of `model.`.
pub fn in_part(part: &str, name: &str) -> String {
    format!("{part}.{}", name.strip_prefix("model.").unwrap_or(name))
}

/// The name that shares the most components with `name`, counted from the end: at least three.
pub(crate) fn similar<'n>(name: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let shared = |other: &str| name.rsplit('.').zip(other.rsplit('.')).take_while(|(a, b)| a == b).count();
    // On a tie, the shortest and alphabetically first name wins, regardless of the order in the file.
    let best = names.map(|other| (shared(other), other)).filter(|(shared, _)| *shared >= 3);
    let rank = |(shared, name): &(usize, &'n str)| (*shared, std::cmp::Reverse((name.len(), *name)));
    best.max_by_key(rank).map(|(_, name)| name)
}

/// As [`spellings`], of a tensor in a part of a checkpoint.
pub(crate) fn spellings_in(part: &str, name: &str) -> Vec<String> {
    let name = in_part(part, name);
    vec![format!("model.{name}"), name]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_names_of_their_own() {
        for (name, file) in [
            ("model.norm.weight", "mtp.norm.weight"),
            ("model.layers.0.mlp.up_proj.weight", "mtp.layers.0.mlp.up_proj.weight"),
            ("fc.weight", "mtp.fc.weight"),
            ("fc.weight", "model.mtp.fc.weight"),
        ] {
            assert!(spellings_in("mtp", name).iter().any(|tried| tried == file), "{name}");
        }
        assert!(!spellings_in("mtp", "model.norm.weight").iter().any(|tried| tried == "model.norm.weight"));
    }

    #[test]
    fn every_layout_is_tried() {
        let tried = |name: &str, file: &str| spellings(name).iter().any(|tried| tried == file);
        for (name, files) in [
            (
                "model.norm.weight",
                &["model.language_model.norm.weight", "language_model.model.norm.weight"][..],
            ),
            ("model.norm.weight", &["model.norm.weight", "model.text_model.norm.weight"]),
            ("model.layers.0.mlp.a", &["midlayer.mlp.a", "layers.0.mlp.a"]),
            ("model.norm.weight", &["norm.weight"]),
            ("vision_model.a", &["model.vision_model.a"]),
            ("connector.a", &["model.connector.a"]),
            ("merger.a", &["model.merger.a"]),
            ("lm_head.weight", &["lm_head.weight", "language_model.lm_head.weight"]),
            ("image_newline", &["image_newline", "model.image_newline"]),
            ("visual.a", &["visual.a", "model.visual.a", "vision_tower.a", "model.language_model.visual.a"]),
            ("model.norm.weight", &["model.language_model.language_model.language_model.norm.weight"]),
            ("vision_tower.a", &["vision_tower.vision_model.a", "model.vision_tower.vision_model.a"]),
            ("vision_tower.a", &["vision_tower.a", "model.vision_tower.a"]),
        ] {
            assert!(files.iter().all(|file| tried(name, file)), "{name}");
        }
        assert!(!tried("visual.a", "model.language_model.a"));
    }
}
