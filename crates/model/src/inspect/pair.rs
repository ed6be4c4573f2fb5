//! What a target and a drafter must share.

use std::{
    cell::OnceCell,
    hash::{DefaultHasher, Hash, Hasher as _},
    path::Path,
};

use crate::{
    ReadModel as _,
    family::{Family, ModelError},
};
use specreel_checkpoint::{ModelFiles, files};

/// What a checkpoint shares with every model that it can draft for: family, frames of a patch, and tokens.
pub struct Interface {
    family: &'static Family,
    temporal: usize,
    files: ModelFiles,
    /// Digest of `tokenizer.json`, where there is one: equal files spare the parsing.
    tokenizer: Option<u64>,
    /// Digest of all tokens in the order of their ids.
    vocabulary: OnceCell<Result<u64, String>>,
}

impl Interface {
    /// Read a directory or a GGUF file. Fails where the checkpoint cannot be read.
    pub fn read(dir: &Path) -> Result<Self, String> {
        let read = || -> Result<_, ModelError> {
            let files = ModelFiles::open(dir, None)?;
            let config = files.config()?;
            let processor = files.processor(&config.tower()?)?;
            Ok((config.family, processor.config().temporal, files))
        };
        let (family, temporal, files) = read().map_err(|e| e.to_string())?;
        let tokenizer = files::read(&dir.join("tokenizer.json"), files::TABLE).ok().map(digest);
        Ok(Self { family, temporal, files, tokenizer, vocabulary: OnceCell::new() })
    }

    /// Check that another checkpoint can draft for this one. The error says what they do not share.
    pub fn check_drafter(&self, drafter: &Self) -> Result<(), String> {
        if self.family != drafter.family {
            return Err(format!(
                "the target is {}, the drafter is {}",
                self.family.name, drafter.family.name
            ));
        }
        if self.temporal != drafter.temporal {
            return Err("patches of target and drafter have different numbers of frames".into());
        }
        if self.tokenizer.is_some() && self.tokenizer == drafter.tokenizer {
            return Ok(());
        }
        match self.vocabulary()? == drafter.vocabulary()? {
            true => Ok(()),
            false => Err("target and drafter have different tokens".into()),
        }
    }

    fn vocabulary(&self) -> Result<u64, String> {
        let read = || {
            let tokenizer = self.files.tokenizer().map_err(|e| e.to_string())?;
            Ok(digest(tokenizer.tokens()))
        };
        self.vocabulary.get_or_init(read).clone()
    }
}

fn digest(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::repository;

    #[test]
    fn the_embedded_pair_fits_and_others_do_not() {
        let read = |part: &str| Interface::read(&repository(part));
        let (target, drafter) = (read("assets/demo/target").unwrap(), read("assets/demo/drafter").unwrap());
        assert_eq!(target.check_drafter(&drafter), Ok(()));
        let without_file = Interface { tokenizer: None, ..read("assets/demo/drafter").unwrap() };
        assert_eq!(target.check_drafter(&without_file), Ok(()));
        assert!(target.check_drafter(&read("tests/parity/fixtures/gqa_tied").unwrap()).is_err());
        assert!(read("no/such").is_err());
    }
}
