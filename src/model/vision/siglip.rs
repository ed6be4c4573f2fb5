//! The vision tower of LLaVA-OneVision: SigLIP (Zhai et al., arXiv:2303.15343) without its last norm.
//!
//! A picture of fixed size is a square grid of patches; pixels at the right and the bottom that do not fill a patch are ignored.
//! Each patch gets a learned position embedding, and all patches of one picture attend to each other.
//!
//! Weights below the tower's root: `embeddings.patch_embedding.{weight,bias}` `[hidden, 3, patch, patch]`,
//! `embeddings.position_embedding.weight` `[patches, hidden]`, `encoder.layers.N.{layer_norm1,layer_norm2}`,
//! `encoder.layers.N.self_attn.{q,k,v,out}_proj`, `encoder.layers.N.mlp.{fc1,fc2}`; all with bias. `post_layernorm` and a
//! head may exist and are not read: the projector's input is the last layer's states.

use candle_core::{Result as CandleResult, Tensor};
use candle_nn::{Linear, Module, VarBuilder, linear};
use serde::Deserialize;

use super::{
    VisionError,
    config::{LARGEST, required, within},
    layers::{Activation, Mlp, Norm, attend},
};

/// `vision_config` of LLaVA-OneVision's files; missing values are the reference class's defaults.
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
    /// Number of layers.
    pub layers: usize,
    /// Attention heads; they divide `hidden`.
    pub heads: usize,
    /// Side of a picture in pixels.
    pub image: usize,
    /// Side of a patch in pixels.
    pub patch: usize,
    /// Epsilon of the norms.
    pub eps: f64,
}

impl SiglipConfig {
    /// Read and resolve a `vision_config` object.
    ///
    /// # Errors
    /// [`VisionError::Parse`] for values of the wrong type, [`VisionError::Config`] for the first value that is missing, out of
    /// range or not supported.
    pub fn from_json(value: &serde_json::Value) -> Result<Self, VisionError> {
        let raw = RawSiglipConfig::deserialize(value)?;
        let refuse = |name, problem| Err(VisionError::Config { name, problem });
        if let Some(other) = raw.model_type.filter(|kind| kind != "siglip_vision_model") {
            return refuse("model_type", format!("is {other:?}; only \"siglip_vision_model\" is supported"));
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
}

struct Layer {
    norm1: Norm,
    norm2: Norm,
    q: Linear,
    k: Linear,
    v: Linear,
    out: Linear,
    mlp: Mlp,
    heads: usize,
}

impl Layer {
    fn load(vb: &VarBuilder, config: &SiglipConfig) -> CandleResult<Self> {
        let d = config.hidden;
        let attn = vb.pp("self_attn");
        Ok(Self {
            norm1: Norm::layer(d, config.eps, vb.pp("layer_norm1"))?,
            norm2: Norm::layer(d, config.eps, vb.pp("layer_norm2"))?,
            q: linear(d, d, attn.pp("q_proj"))?,
            k: linear(d, d, attn.pp("k_proj"))?,
            v: linear(d, d, attn.pp("v_proj"))?,
            out: linear(d, d, attn.pp("out_proj"))?,
            mlp: Mlp::plain(d, config.ffn, Activation::GeluTanh, &vb.pp("mlp"))?,
            heads: config.heads,
        })
    }

    /// `x` is `[pictures, patches, hidden]`.
    fn forward(&self, x: &Tensor) -> CandleResult<Tensor> {
        let x = (x + self.attention(&self.norm1.forward(x)?)?)?;
        &x + self.mlp.forward(&self.norm2.forward(&x)?)?
    }

    fn attention(&self, x: &Tensor) -> CandleResult<Tensor> {
        let (pictures, n, d) = x.dims3()?;
        let (heads, head) = (self.heads, d / self.heads);
        let split = |t: Tensor| {
            t.reshape((pictures, n, heads, head))?.transpose(1, 2)?.contiguous()?.reshape((
                pictures * heads,
                n,
                head,
            ))
        };
        let q = (split(self.q.forward(x)?)? * (head as f64).powf(-0.5))?;
        let y = attend(&q, &split(self.k.forward(x)?)?, &split(self.v.forward(x)?)?)?;
        let y = y.reshape((pictures, heads, n, head))?.transpose(1, 2)?.contiguous()?;
        self.out.forward(&y.reshape((pictures, n, d))?)
    }
}

/// The tower.
pub(super) struct Siglip {
    embed: Linear,
    /// `[patches, hidden]`.
    position_embeddings: Tensor,
    layers: Vec<Layer>,
}

impl Siglip {
    /// Load the tower; `vb` is at its root.
    pub(super) fn load(vb: &VarBuilder, config: &SiglipConfig) -> CandleResult<Self> {
        let (d, patch) = (config.hidden, config.patch);
        let embeddings = vb.pp("embeddings");
        let first = embeddings.pp("patch_embedding");
        let kernel = first.get((d, 3, patch, patch), "weight")?.reshape((d, config.row()))?;
        let layers = vb.pp("encoder").pp("layers");
        Ok(Self {
            embed: Linear::new(kernel, Some(first.get(d, "bias")?)),
            position_embeddings: embeddings
                .pp("position_embedding")
                .get((config.side() * config.side(), d), "weight")?,
            layers: (0..config.layers)
                .map(|i| Layer::load(&layers.pp(i), config))
                .collect::<CandleResult<_>>()?,
        })
    }

    /// States `[pictures, patches, hidden]` of `[pictures, patches, row]`; `after_layer` may stop the computation with an error.
    pub(super) fn forward(
        &self,
        patches: &Tensor,
        after_layer: &mut dyn FnMut() -> Result<(), VisionError>,
    ) -> Result<Tensor, VisionError> {
        let mut x = self.embed.forward(patches)?.broadcast_add(&self.position_embeddings)?;
        for layer in &self.layers {
            x = layer.forward(&x)?;
            after_layer()?;
        }
        Ok(x)
    }

    /// Number of layers.
    pub(super) fn layers(&self) -> usize {
        self.layers.len()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn raw() -> serde_json::Value {
        json!({
            "hidden_size": 1152, "image_size": 384, "intermediate_size": 4304, "model_type": "siglip_vision_model",
            "num_attention_heads": 16, "num_hidden_layers": 26, "patch_size": 14, "vision_use_head": false,
        })
    }

    #[test]
    fn the_published_config_resolves() {
        let config = SiglipConfig::from_json(&raw()).unwrap();
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
            let error = SiglipConfig::from_json(&config).unwrap_err().to_string();
            assert!(error.contains("vision_config"), "{name} = {value}: {error}");
        }
    }
}
