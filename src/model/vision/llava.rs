//! From frames to visual embeddings in LLaVA-OneVision (arXiv:2408.03326): SigLIP, a projector, pooling.
//!
//! Every frame is encoded on its own. Its 27 × 27 states are projected to the language model's width and pooled to 14 × 14
//! visual tokens. A learned vector, the newline, ends the video; it belongs to no frame.
//!
//! Weights: `vision_tower.…` (see [`super::siglip`]), `multi_modal_projector.{linear_1,linear_2}.{weight,bias}`,
//! `image_newline` `[width]`.

use candle_core::{DType, Device, Result as CandleResult, Tensor};
use candle_nn::{Linear, Module, VarBuilder, linear_b};
use serde::Deserialize;

use super::{
    EncodeProgress, VisionError, chunks,
    siglip::{Siglip, SiglipConfig},
};
use crate::model::{ComputeDevice, checkpoint::Checkpoint, processor::Grid};

/// Side of the square of states that is pooled to one visual token; fixed in the reference implementation.
pub const POOL: usize = 2;

/// The values of `config.json` about the projector.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct RawProjectorConfig {
    projector_hidden_act: Option<String>,
    vision_feature_layer: Option<serde_json::Value>,
    vision_feature_select_strategy: Option<String>,
    multimodal_projector_bias: Option<bool>,
}

/// Dimensions of tower and projector.
#[derive(Clone, Debug, PartialEq)]
pub struct LlavaConfig {
    /// The tower.
    pub tower: SiglipConfig,
    /// Whether the projector's layers have biases.
    pub bias: bool,
    /// Width of the visual embeddings, which is the decoder's.
    pub out: usize,
}

impl LlavaConfig {
    /// Read the vision settings of a whole `config.json`, for a language model of width `out`.
    ///
    /// # Errors
    /// [`VisionError`] for values that are missing, out of range, or not supported.
    pub fn from_json(config: &serde_json::Value, out: usize) -> Result<Self, VisionError> {
        let raw = RawProjectorConfig::deserialize(config)?;
        let only =
            |name, value: Option<String>, supported: &str| match value.filter(|value| value != supported) {
                None => Ok(()),
                Some(other) => {
                    let problem = format!("is {other:?}; only {supported:?} is supported");
                    Err(VisionError::Setting { name, problem })
                }
            };
        only("projector_hidden_act", raw.projector_hidden_act, "gelu")?;
        only("vision_feature_select_strategy", raw.vision_feature_select_strategy, "full")?;
        only("vision_feature_layer", raw.vision_feature_layer.map(|v| v.to_string()), "-1")?;
        Ok(Self {
            tower: SiglipConfig::from_json(config.get("vision_config").unwrap_or(&serde_json::Value::Null))?,
            bias: raw.multimodal_projector_bias.unwrap_or(true),
            out,
        })
    }
}

/// Bilinear pooling of a square of states, each output the weighted mean of up to four inputs: torch's `interpolate` with
/// `align_corners=False`.
struct Pooling {
    /// For each of the four neighbours, its index for every output, and its weight `[outputs, 1]`.
    taps: Vec<(Tensor, Tensor)>,
}

/// For each of `to` outputs along one axis: the input before it, the input after it, the weight of the latter.
fn neighbours(from: usize, to: usize) -> Vec<(usize, usize, f32)> {
    let scale = from as f32 / to as f32;
    let position = |i: usize| ((i as f32 + 0.5) * scale - 0.5).max(0.0);
    (0..to)
        .map(|i| {
            let before = (position(i) as usize).min(from - 1);
            (before, (before + 1).min(from - 1), position(i) - before as f32)
        })
        .collect()
}

/// A state of a square, and its weight in a visual token.
#[derive(Clone, Copy)]
pub(super) struct Tap {
    pub state: usize,
    pub weight: f32,
}

/// The pooling of a square of `side × side` states: for each of the four neighbours, its tap in every visual token.
pub(super) fn taps(side: usize) -> [Vec<Tap>; 4] {
    let axis = neighbours(side, side.div_ceil(POOL));
    [(false, false), (false, true), (true, false), (true, true)].map(|(below, right)| {
        let choose = |(before, after, share): (usize, usize, f32), later| match later {
            false => (before, 1.0 - share),
            true => (after, share),
        };
        let cells = axis.iter().flat_map(|row| axis.iter().map(move |column| (*row, *column)));
        let tap = |(row, column)| {
            let ((y, down), (x, across)) = (choose(row, below), choose(column, right));
            Tap { state: y * side + x, weight: down * across }
        };
        cells.map(tap).collect()
    })
}

impl Pooling {
    fn new(side: usize, device: &Device, dtype: DType) -> CandleResult<Self> {
        let taps = taps(side).map(|taps| {
            let n = taps.len();
            let (index, weight): (Vec<u32>, Vec<f32>) =
                taps.into_iter().map(|tap| (tap.state as u32, tap.weight)).unzip();
            let weight = Tensor::from_vec(weight, (n, 1), device)?.to_dtype(dtype)?;
            Ok((Tensor::from_vec(index, n, device)?, weight))
        });
        Ok(Self { taps: taps.into_iter().collect::<CandleResult<_>>()? })
    }

    /// `[pictures, side², width]` to `[pictures, ceil(side / 2)², width]`.
    fn forward(&self, x: &Tensor) -> CandleResult<Tensor> {
        let mut sum: Option<Tensor> = None;
        for (index, weight) in &self.taps {
            let part = x.index_select(index, 1)?.broadcast_mul(weight)?;
            sum = Some(match sum {
                None => part,
                Some(sum) => (sum + part)?,
            });
        }
        sum.ok_or_else(|| candle_core::Error::Msg("no states to pool".into()))
    }
}

/// Tower, projector and newline.
pub struct LlavaVision {
    config: LlavaConfig,
    tower: Siglip,
    first: Linear,
    second: Linear,
    pooling: Pooling,
    newline: Tensor,
    device: Device,
    dtype: DType,
}

impl LlavaVision {
    /// Load tower, projector and newline from a checkpoint.
    ///
    /// # Errors
    /// [`VisionError::Weights`] if a tensor is missing or has another shape than the configuration says.
    pub fn load(
        checkpoint: &Checkpoint,
        config: &LlavaConfig,
        device: &ComputeDevice,
    ) -> Result<Self, VisionError> {
        let missing = |e: crate::model::checkpoint::CheckpointError| {
            VisionError::Weights(candle_core::Error::Msg(e.to_string()))
        };
        let tower = checkpoint.var_builder("vision_tower", device).map_err(missing)?;
        let projector = checkpoint.var_builder("multi_modal_projector", device).map_err(missing)?;
        let newline = checkpoint.f32("image_newline", &[config.out]).map_err(missing)?;
        Self::read(&tower, &projector, newline, config).map_err(VisionError::Weights)
    }

    fn read(
        tower: &VarBuilder,
        projector: &VarBuilder,
        newline: Vec<f32>,
        config: &LlavaConfig,
    ) -> CandleResult<Self> {
        let (device, dtype) = (tower.device().clone(), tower.dtype());
        let (width, out, bias) = (config.tower.hidden, config.out, config.bias);
        Ok(Self {
            tower: Siglip::load(tower, &config.tower)?,
            first: linear_b(width, out, bias, projector.pp("linear_1"))?,
            second: linear_b(out, out, bias, projector.pp("linear_2"))?,
            pooling: Pooling::new(config.tower.side(), &device, dtype)?,
            newline: Tensor::from_vec(newline, (1, out), &device)?,
            config: config.clone(),
            device,
            dtype,
        })
    }

    /// The dimensions.
    pub fn config(&self) -> &LlavaConfig {
        &self.config
    }

    /// The vector that ends a video, `[1, out]`.
    pub fn newline(&self) -> &Tensor {
        &self.newline
    }

    /// Visual embeddings `[frames · ceil(side / 2)², out]` of `patches` `[frames · side², row]`, without the newline.
    ///
    /// # Errors
    /// [`VisionError::Patches`] if the patches do not match the grid or the tower, [`VisionError::Cancelled`] if `progress`
    /// breaks, [`VisionError::Compute`] if the computation fails.
    pub fn forward(
        &self,
        patches: &Tensor,
        grid: Grid,
        progress: &mut EncodeProgress<'_>,
    ) -> Result<Tensor, VisionError> {
        self.run(patches, grid, progress, &|states| {
            let projected = self.second.forward(&self.first.forward(states)?.gelu_erf()?)?;
            self.pooling.forward(&projected)
        })
    }

    /// The tower's states `[frames · side², hidden]`.
    ///
    /// # Errors
    /// As [`Self::forward`].
    pub fn states(
        &self,
        patches: &Tensor,
        grid: Grid,
        progress: &mut EncodeProgress<'_>,
    ) -> Result<Tensor, VisionError> {
        self.run(patches, grid, progress, &|states| Ok(states.clone()))
    }

    /// Run the tower and `finish` (`[frames, side², hidden]` to `[frames, n, width]`) chunk by chunk.
    fn run(
        &self,
        patches: &Tensor,
        grid: Grid,
        progress: &mut EncodeProgress<'_>,
        finish: &dyn Fn(&Tensor) -> CandleResult<Tensor>,
    ) -> Result<Tensor, VisionError> {
        let (row, side) = (self.config.tower.row(), self.config.tower.side());
        let mismatch =
            ((grid.h, grid.w) != (side, side)).then(|| format!("expected {side}x{side} patches a frame"));
        chunks::check(patches, grid, row, mismatch)?;
        let most = chunks::max_patches(&self.device);
        chunks::encode(grid, self.tower.layers(), most, progress, |frames, after_layer| {
            let shape = (frames.len(), grid.h * grid.w, row);
            let input = chunks::select(patches, grid, frames, self.dtype, &self.device)?.reshape(shape)?;
            let states = self.tower.forward(&input, after_layer)?;
            Ok(finish(&states)?.flatten(0, 1)?)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_match_the_reference() {
        // 27 to 14: positions 13/28 + i · 27/14
        let axis = neighbours(27, 14);
        assert_eq!((axis[0].0, axis[0].1), (0, 1));
        assert!((axis[0].2 - 13.0 / 28.0).abs() < 1e-6);
        assert_eq!((axis[13].0, axis[13].1), (25, 26));
        assert!((axis[13].2 - 15.0 / 28.0).abs() < 1e-5);
        assert_eq!(neighbours(1, 1), [(0, 0, 0.0)]);
        assert_eq!(neighbours(4, 2), [(0, 1, 0.5), (2, 3, 0.5)]);
    }

    #[test]
    fn pooling_keeps_constants_and_ramps() {
        let pooling = Pooling::new(5, &Device::Cpu, DType::F32).unwrap();
        let ramp: Vec<f32> = (0..25).map(|i| (i % 5) as f32).collect();
        let x = Tensor::from_vec([vec![7.0; 25], ramp].concat(), (2, 25, 1), &Device::Cpu).unwrap();
        let y = pooling.forward(&x).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap();
        assert!(y[..9].iter().all(|v| *v == 7.0));
        for (got, want) in y[9..].iter().zip([1.0 / 3.0, 2.0, 11.0 / 3.0].iter().cycle()) {
            assert!((got - want).abs() < 1e-6, "{y:?}");
        }
    }

    #[test]
    fn unsupported_settings_are_refused_by_name() {
        let whole = serde_json::json!({"vision_config": {
            "hidden_size": 32, "image_size": 76, "intermediate_size": 40, "num_attention_heads": 2, "patch_size": 14,
        }});
        assert_eq!(LlavaConfig::from_json(&whole, 64).unwrap().tower.side(), 5);
        for (name, value) in [
            ("projector_hidden_act", serde_json::json!("relu")),
            ("vision_feature_layer", serde_json::json!([-2, -5])),
            ("vision_feature_layer", serde_json::json!(-2)),
            ("vision_feature_select_strategy", serde_json::json!("default")),
        ] {
            let mut config = whole.clone();
            config[name] = value;
            let error = LlavaConfig::from_json(&config, 64).unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
        }
        assert!(LlavaConfig::from_json(&serde_json::json!({}), 64).is_err());
    }
}
