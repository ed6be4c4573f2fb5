//! The vision tower of some families: SigLIP (Zhai et al., arXiv:2303.15343).
//!
//! A picture of fixed size is a square grid of patches; pixels at the right and the bottom that do not fill a patch are ignored.
//! Each patch gets a learned position embedding, and all patches of one picture attend to each other.

use serde::Deserialize;

use super::{
    TowerSizes, VisionError,
    parts::{LayerParts, MlpParts, NormParts, ProjectorParts, TowerParts, matrix},
    values::{LARGEST, required, within},
};
use crate::{
    mac_count::{MacCount, TowerMacCount},
    processor::Grid,
};
use specreel_tensor::tower::Activation;

/// `vision_config`; missing values are the reference class's defaults.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct RawSiglipConfig {
    model_type: Option<String>,
    hidden_act: Option<String>,
    hidden_size: Option<usize>,
    image_size: Option<usize>,
    intermediate_size: Option<usize>,
    layer_norm_eps: Option<f64>,
    num_attention_heads: Option<usize>,
    num_channels: Option<usize>,
    num_hidden_layers: Option<usize>,
    patch_size: Option<usize>,
}

/// A SigLIP tower's dimensions.
#[derive(Clone, Debug, PartialEq)]
pub struct SiglipConfig {
    /// Width of the states.
    pub hidden: usize,
    /// Width of the feed-forward layers.
    pub ffn: usize,
    pub layers: usize,
    /// Attention heads; they divide `hidden`.
    pub heads: usize,
    /// Side of a picture in pixels.
    pub image: usize,
    /// Side of a patch in pixels.
    pub patch: usize,
    pub eps: f64,
}

impl SiglipConfig {
    /// Read and resolve a `vision_config` object whose `model_type`, if it has one, is one of these. Fails with
    /// [`VisionError::Parse`] for values of the wrong type, [`VisionError::Config`] for the first value that is missing, out of
    /// range or not supported.
    pub fn from_json(value: &serde_json::Value, model_types: &[&str]) -> Result<Self, VisionError> {
        let raw = RawSiglipConfig::deserialize(value)?;
        let refuse = |name, problem| Err(VisionError::Config { name, problem });
        if let Some(other) = raw.model_type.filter(|kind| !model_types.contains(&kind.as_str())) {
            let supported = model_types.first().copied().unwrap_or_default();
            return refuse("model_type", format!("is {other:?}; only {supported:?} is supported"));
        }
        if let Some(act) = raw.hidden_act.filter(|act| act != "gelu_pytorch_tanh") {
            return refuse("hidden_act", format!("is {act:?}; only \"gelu_pytorch_tanh\" is supported"));
        }
        let channels = raw.num_channels.unwrap_or(3);
        if channels != 3 {
            return refuse("num_channels", format!("is {channels}; only 3 is supported"));
        }
        let hidden = required("hidden_size", raw.hidden_size, LARGEST)?;
        let heads = required("num_attention_heads", raw.num_attention_heads, LARGEST)?;
        if !hidden.is_multiple_of(heads) {
            return refuse("num_attention_heads", format!("is {heads}; it must divide hidden_size {hidden}"));
        }
        let patch = required("patch_size", raw.patch_size, 256)?;
        let image = required("image_size", raw.image_size, 1 << 13)?;
        if image < patch {
            return refuse(
                "image_size",
                format!("is {image}; it must be at least one patch of {patch} pixels"),
            );
        }
        let eps = raw.layer_norm_eps.unwrap_or(1e-6);
        if !(eps.is_finite() && eps > 0.0) {
            return refuse("layer_norm_eps", format!("is {eps}; it must be positive"));
        }
        Ok(Self {
            hidden,
            ffn: required("intermediate_size", raw.intermediate_size, LARGEST)?,
            layers: within("num_hidden_layers", raw.num_hidden_layers.unwrap_or(12), 4096)?,
            heads,
            image,
            patch,
            eps,
        })
    }

    /// Patches along one side of a picture.
    pub fn side(&self) -> usize {
        self.image / self.patch
    }

    /// Values in one patch: 3 · patch².
    pub fn row(&self) -> usize {
        3 * self.patch * self.patch
    }

    pub(crate) fn norm(&self, name: String) -> NormParts {
        NormParts { name, width: self.hidden, bias: true, eps: self.eps as f32, unit: false }
    }

    /// The tensors below `at`: `embeddings.patch_embedding.{weight,bias}` `[hidden, 3, patch, patch]`,
    /// `embeddings.position_embedding.weight` `[patches, hidden]`, `encoder.layers.N.{layer_norm1,layer_norm2}`,
    /// `….self_attn.{q,k,v,out}_proj`, `….mlp.{fc1,fc2}`, all with bias.
    pub(crate) fn parts(&self, at: &str, projector: ProjectorParts) -> TowerParts {
        let (d, ffn) = (self.hidden, self.ffn);
        let layer = |index: usize| {
            let at = |part: &str| format!("{at}.encoder.layers.{index}.{part}");
            let [q, k, v] = ["q", "k", "v"].map(|part| at(&format!("self_attn.{part}_proj")));
            LayerParts {
                norm1: self.norm(at("layer_norm1")),
                qkv: matrix(&[(&q, d), (&k, d), (&v, d)], d, true),
                output: matrix(&[(&at("self_attn.out_proj"), d)], d, true),
                norm2: self.norm(at("layer_norm2")),
                mlp: MlpParts::Plain {
                    first: matrix(&[(&at("mlp.fc1"), ffn)], d, true),
                    activation: Activation::GeluTanh,
                    second: matrix(&[(&at("mlp.fc2"), d)], ffn, true),
                },
                windows: false,
                heads: None,
                after: None,
                bounded: false,
                joined: 1,
            }
        };
        let positions = format!("{at}.embeddings.position_embedding.weight");
        TowerParts {
            embed: matrix(&[(&format!("{at}.embeddings.patch_embedding"), d)], self.row(), true),
            positions: Some((positions, vec![self.side() * self.side(), d])),
            layers: (0..self.layers).map(layer).collect(),
            projectors: vec![projector],
            newline: None,
        }
    }

    /// The sizes of a tower with embeddings of width `out`.
    pub(crate) fn sizes(&self, out: usize) -> TowerSizes {
        let Self { hidden, heads, ffn, layers, .. } = *self;
        TowerSizes { out, row: self.row(), hidden, heads, ffn, layers }
    }

    /// What is wrong with a grid of patches: pictures have one size.
    pub(crate) fn mismatch(&self, grid: Grid) -> Option<String> {
        let side = self.side();
        ((grid.h, grid.w) != (side, side)).then(|| format!("expected {side}x{side} patches a frame"))
    }

    /// The multiply-adds of pictures, including their projection.
    pub(crate) fn mac_count(&self, grid: Grid, projection: MacCount) -> TowerMacCount {
        let (patches, d) = (self.side().pow(2), self.hidden);
        let layer = MacCount {
            products: (patches * d * (4 * d + 2 * self.ffn)) as f64,
            attention: 2.0 * d as f64 * (patches as f64).powi(2),
        };
        TowerMacCount {
            grids: grid.t,
            before: MacCount { products: (patches * self.row() * d) as f64, attention: 0.0 },
            layers: vec![layer; self.layers],
            after: projection,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const KIND: [&str; 1] = ["siglip_vision_model"];

    fn raw() -> serde_json::Value {
        json!({
            "hidden_size": 1152, "image_size": 384, "intermediate_size": 4304, "model_type": "siglip_vision_model",
            "num_attention_heads": 16, "num_hidden_layers": 26, "patch_size": 14, "vision_use_head": false,
        })
    }

    #[test]
    fn the_published_config_resolves() {
        let config = SiglipConfig::from_json(&raw(), &KIND).unwrap();
        assert_eq!((config.side(), config.row(), config.layers, config.eps), (27, 588, 26, 1e-6));
    }

    #[test]
    fn invalid_values_are_refused_by_name() {
        for (name, value) in [
            ("model_type", json!("clip_vision_model")),
            ("hidden_act", json!("quick_gelu")),
            ("num_channels", json!(1)),
            ("hidden_size", json!(0)),
            ("hidden_size", json!(null)),
            ("num_attention_heads", json!(7)),
            ("patch_size", json!(0)),
            ("image_size", json!(13)),
            ("image_size", json!(1u64 << 40)),
            ("intermediate_size", json!(null)),
            ("num_hidden_layers", json!(0)),
            ("layer_norm_eps", json!(-1.0)),
            ("layer_norm_eps", json!("small")),
        ] {
            let mut config = raw();
            config[name] = value.clone();
            let error = SiglipConfig::from_json(&config, &KIND).unwrap_err().to_string();
            assert!(error.contains("vision_config"), "{name} = {value}: {error}");
        }
    }
}
