//! Sizes of well-known models, and random weights for them, to measure without a download.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::LazyLock,
};

use rayon::prelude::*;
use serde_json::{Map, Value};

use super::config::{TextConfig, VlConfig};

/// Values that one thread generates at a time.
const CHUNK: usize = 1 << 16;

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

/// Random values of a tensor, deterministic by name: norms are one, biases zero, matrices uniform within bounds that preserve
/// the variance of their inputs.
pub(super) fn values(name: &str, shape: &[usize]) -> Vec<f32> {
    let count = shape.iter().product();
    let inputs: usize = match shape {
        // Norms and biases.
        [] | [_] => return vec![if name.ends_with(".weight") { 1.0 } else { 0.0 }; count],
        [_, inputs @ ..] => inputs.iter().product(),
    };
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    let seed = hasher.finish();
    let bound = (3.0 / inputs.max(1) as f32).sqrt();
    let mut values = vec![0f32; count];
    values.par_chunks_mut(CHUNK).enumerate().for_each(|(index, part)| {
        let mut state = (seed ^ (index as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)) | 1;
        for value in part {
            // xorshift (Marsaglia, 2003); the upper 24 bits are scaled to -1 to 1.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            *value = ((state >> 40) as f32 / (1u32 << 23) as f32 - 1.0) * bound;
        }
    });
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{
        decoder::parts,
        vision::{self, TowerConfig},
    };

    /// Parameters of language model and tower.
    fn parameters(name: &str) -> (u64, u64) {
        let config = config(name).unwrap_or_else(|| panic!("{name}"));
        let tower = TowerConfig::of(&config).unwrap();
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
            let tower = TowerConfig::of(&config).unwrap();
            tower.fits(&tower.frames(), config.text.hidden).unwrap();
        }
        assert!(find("gpt").is_none());
    }

    #[test]
    fn weights_are_uniform_and_deterministic() {
        let shape = [300, 700];
        let w = values("a.weight", &shape);
        assert_eq!(w, values("a.weight", &shape));
        assert_ne!(w, values("b.weight", &shape));
        let mean = w.iter().sum::<f32>() / w.len() as f32;
        let variance = w.iter().map(|v| v * v).sum::<f32>() / w.len() as f32;
        assert!(mean.abs() < 1e-3 && (variance * 700.0 - 1.0).abs() < 0.02, "{mean} {variance}");
        assert_eq!(values("x.norm.weight", &[3]), [1.0; 3]);
        assert_eq!(values("q_proj.bias", &[2]), [0.0; 2]);
    }
}
