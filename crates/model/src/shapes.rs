//! Sizes of well-known models, to measure without a download.

use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::{config::TextConfig, family::VlConfig};

/// The sizes in the published `config.json` of each model, by the name of its shape.
static CONFIGS: LazyLock<Map<String, Value>> =
    LazyLock::new(|| serde_json::from_str(include_str!("shapes.json")).unwrap_or_default());

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

    #[test]
    fn a_published_file_has_the_sizes_of_its_shape() {
        // Qwen3.6 and 3.8 have the sizes of Qwen3.5.
        let qwen = include_str!("../../../tests/parity/fixtures/published/configs/qwen3.8-27b.json");
        let minicpm = include_str!("../../../tests/parity/fixtures/published/configs/minicpm-v-4.6.json");
        for (file, shape) in [(qwen, "qwen3.5-27b"), (minicpm, "minicpm-v-4.6")] {
            let published = VlConfig::resolve(serde_json::from_str(file).unwrap()).unwrap();
            let known = config(shape).unwrap();
            assert_eq!(published.text, known.text);
            assert_eq!((published.family, published.video_token), (known.family, known.video_token));
            assert_eq!(published.tower().unwrap().rules().sizes(), known.tower().unwrap().rules().sizes());
        }
    }

    /// As their owner counts them: parameters with embeddings, and without those for each layer.
    #[test]
    fn gemmas_have_as_many_parameters_as_published() {
        for (name, all, effective) in [("gemma-4-e2b", 4.6, 2.3), ("gemma-4-e4b", 7.4, 4.6)] {
            let text = find(name).unwrap();
            let count = |(_, shape): &(String, Vec<usize>)| shape.iter().product::<usize>() as f64 / 1e9;
            let (added, others): (Vec<_>, Vec<_>) = parts::tensors(&text)
                .into_iter()
                .partition(|(name, _)| name.contains("embed_tokens_per_layer"));
            let others: f64 = others.iter().map(count).sum();
            assert!((others - effective).abs() < 0.05, "{name}: {others}");
            assert!((others + count(&added[0]) - all).abs() < 0.1, "{name}");
        }
    }

    #[test]
    fn every_shape_is_a_model_that_could_be_loaded() {
        for name in names() {
            let config = config(name).unwrap_or_else(|| panic!("{name}"));
            let tower = config.tower().unwrap();
            let tensors = [parts::tensors(&config.text), vision::parts::tensors(&tower)].concat();
            assert!(tensors.iter().all(|(_, shape)| shape.iter().all(|&n| n > 0)), "{name}");
            tower.fits(&tower.frames(), config.text.hidden).unwrap();
        }
        assert!(find("gpt").is_none());
    }
}
