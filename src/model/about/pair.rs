//! Whether one checkpoint can draft for another.

use std::path::Path;

use crate::model::{config::VlConfig, family::ModelError, files, text::TextTokenizer, vision::TowerConfig};

/// True if the two directories hold the same `tokenizer.json`, byte for byte: quickly known, and then the vocabularies agree.
pub fn same_tokenizer_file(a: &Path, b: &Path) -> bool {
    let read = |dir: &Path| files::read(&dir.join("tokenizer.json"), files::TABLE).ok();
    read(a).zip(read(b)).is_some_and(|(a, b)| a == b)
}

/// Whether the model in `drafter` can draft for the one in `target`: the same tokens, and the same patches.
///
/// # Errors
/// In words, why not.
pub fn can_draft(target: &Path, drafter: &Path) -> Result<(), String> {
    let about = |dir: &Path| -> Result<_, ModelError> {
        let config = VlConfig::read(dir)?;
        Ok((config.family, TowerConfig::of(&config)?.processor().load(dir)?))
    };
    let about = |dir: &Path| about(dir).map_err(|e| e.to_string());
    let ((ours, cut), (theirs, other)) = (about(target)?, about(drafter)?);
    if ours != theirs {
        return Err(format!("it is of another family ({})", theirs.name()));
    }
    if !cut.cuts_like(&other) {
        return Err("it cuts frames into other patches".into());
    }
    if same_tokenizer_file(target, drafter) {
        return Ok(());
    }
    let tokenizer = |dir: &Path| TextTokenizer::load(dir).map_err(|e| e.to_string());
    tokenizer(target)?.same_vocabulary(&tokenizer(drafter)?).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_pair_fits_and_strangers_do_not() {
        let at = |part: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join(part);
        let (target, drafter) = (at("assets/demo/target"), at("assets/demo/drafter"));
        assert_eq!(can_draft(&target, &drafter), Ok(()));
        let stranger = at("tests/parity/fixtures/gqa_tied");
        assert!(can_draft(&target, &stranger).is_err());
        assert!(can_draft(&target, &at("no/such")).is_err());
    }
}
