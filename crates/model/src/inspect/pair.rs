//! Checks whether one checkpoint can draft for another.

use crate::ReadModel as _;
use std::path::Path;

use crate::family::ModelError;
use specreel_checkpoint::{ModelFiles, files};

/// True if both directories have the same `tokenizer.json`, byte for byte: a quick check that implies equal vocabularies.
pub fn same_tokenizer_file(a: &Path, b: &Path) -> bool {
    let read = |dir: &Path| files::read(&dir.join("tokenizer.json"), files::TABLE).ok();
    read(a).zip(read(b)).is_some_and(|(a, b)| a == b)
}

/// Check that the model in `drafter` can draft for the one in `target`: same family, tokens and patches.
pub fn can_draft(target: &Path, drafter: &Path) -> Result<(), String> {
    let read = |dir: &Path| -> Result<_, ModelError> {
        let files = ModelFiles::open(dir, None)?;
        let config = files.config()?;
        let processor = files.processor(&config.tower()?)?;
        Ok((config.family, processor, files))
    };
    let read = |dir: &Path| read(dir).map_err(|e| e.to_string());
    let ((ours, processor, target_files), (theirs, other, drafter_files)) = (read(target)?, read(drafter)?);
    if ours != theirs {
        return Err(format!("the target is {}, the drafter is {}", ours.name, theirs.name));
    }
    if processor.config().temporal != other.config().temporal {
        return Err("patches of target and drafter have different numbers of frames".into());
    }
    if same_tokenizer_file(target, drafter) {
        return Ok(());
    }
    let tokenizer = |files: &ModelFiles| files.tokenizer().map_err(|e| e.to_string());
    tokenizer(&target_files)?.same_vocabulary(&tokenizer(&drafter_files)?).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_pair_fits_and_others_do_not() {
        let at = |part: &str| Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(part);
        let (target, drafter) = (at("assets/demo/target"), at("assets/demo/drafter"));
        assert_eq!(can_draft(&target, &drafter), Ok(()));
        let other = at("tests/parity/fixtures/gqa_tied");
        assert!(can_draft(&target, &other).is_err());
        assert!(can_draft(&target, &at("no/such")).is_err());
    }
}
