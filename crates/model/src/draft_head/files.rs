//! Reading the configuration of a draft head, in the layout of this crate or a published one.

use std::path::Path;

use serde::Deserialize;

use super::{
    config::{DraftHeadConfig, MODEL_TYPE},
    published,
};
use specreel_tensor::CheckpointError;

impl DraftHeadConfig {
    /// True if `DIR/config.json` is readable and describes a draft head.
    pub fn is_in(dir: &Path) -> bool {
        #[derive(Deserialize)]
        struct Type {
            model_type: String,
        }
        let text = std::fs::read_to_string(dir.join("config.json")).unwrap_or_default();
        let own = || serde_json::from_str::<Type>(&text).is_ok_and(|config| config.model_type == MODEL_TYPE);
        published::is_published(&text) || own()
    }

    /// Read `DIR/config.json`. Fails if the file is missing, describes no draft head, or holds impossible sizes.
    pub fn read(dir: &Path) -> Result<Self, CheckpointError> {
        let path = dir.join("config.json");
        let fail = |problem: &str| CheckpointError::file(&path, problem);
        let text = std::fs::read_to_string(&path).map_err(|e| fail(&e.to_string()))?;
        let config: Self = match published::is_published(&text) {
            true => published::read(&text).map_err(|problem| fail(&problem))?,
            false => serde_json::from_str(&text).map_err(|e| fail(&e.to_string()))?,
        };
        if config.model_type != MODEL_TYPE {
            return Err(fail(&format!("`model_type` is {}, expected {MODEL_TYPE}", config.model_type)));
        }
        config.problem().map_or(Ok(()), |problem| Err(fail(&problem)))?;
        Ok(config)
    }
}
