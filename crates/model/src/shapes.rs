//! Sizes of well-known models, to measure without a download.

use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::{config::TextConfig, family::VlConfig};

/// The sizes in the published `config.json` of each model, by the name of its shape.
static CONFIGS: LazyLock<Map<String, Value>> =
    LazyLock::new(|| serde_json::from_str(include_str!("shapes.json")).unwrap_or_default());

/// The names of all shapes.
pub fn names() -> Vec<&'static str> {
    CONFIGS.keys().map(String::as_str).collect()
}

/// The configuration of the model of this name.
pub fn config(name: &str) -> Option<VlConfig> {
    VlConfig::resolve(CONFIGS.get(name)?.clone()).ok()
}

/// The configuration of its language model.
pub fn find(name: &str) -> Option<TextConfig> {
    config(name).map(|config| config.text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{decoder::parts, vision};

    /// Parameters of language model and tower.
    fn parameters(name: &str) -> (u64, u64) {
        let config = config(name).unwrap_or_else(|| panic!("{name}"));
        let tower = config.tower().unwrap();
        let count = |all: Vec<(String, Vec<usize>)>| {
            all.iter().map(|(_, shape)| shape.iter().map(|&n| n as u64).product::<u64>()).sum()
        };
        (count(parts::tensors(&config.text)), count(vision::parts::tensors(&tower)))
    }

    #[test]
    fn every_shape_is_a_model_that_could_be_loaded() {
        for name in names() {
            let (text, tower) = parameters(name);
            assert!(text > 0 && tower > 0, "{name}");
            let config = config(name).unwrap();
            let tower = config.tower().unwrap();
            tower.fits(&tower.frames(), config.text.hidden).unwrap();
        }
        assert!(find("gpt").is_none());
    }
}
