//! A check that a device computes the CPU's results, with a tiny model of random weights.

use specreel_tensor::{ComputeDevice, Error, Result, WeightType};

use super::{Decoder, Mask, Positions, Taps, Workspace};
use crate::config::{TextConfig, text::QWEN2};
use specreel_checkpoint::Checkpoint;

/// Tokens of the text that is computed.
const TOKENS: u32 = 40;
/// The weight types, each with the difference from the CPU up to which a device computes it: as a share of the largest logit.
const TYPES: [(WeightType, f32); 2] = [(WeightType::F32, 1e-3), (WeightType::Q8_0, 0.05)];

#[derive(Clone, Debug, PartialEq)]
pub struct SelfTest {
    /// Every row has the same bits among any other rows.
    pub alike: bool,
    /// For each weight type the largest difference from a logit of the CPU, as a share of the largest logit.
    pub differences: Vec<(WeightType, f32)>,
}

impl SelfTest {
    /// Compute a text on a device, which `open` opens with weights of a type, and on the CPU.
    pub fn run(open: &dyn Fn(WeightType) -> ComputeDevice) -> Result<Self> {
        let mut found = Self { alike: true, differences: Vec::new() };
        for (dtype, _) in TYPES {
            let device = open(dtype);
            let mut largest = 0f32;
            // Operations between matrices are computed in f32 for any type of matrix.
            for deep in [false, true].into_iter().take(if dtype == WeightType::F32 { 2 } else { 1 }) {
                let (ours, theirs) = (logits(&device, deep)?, logits(&ComputeDevice::cpu(dtype), deep)?);
                let peak = theirs.iter().fold(0f32, |peak, value| peak.max(value.abs()));
                let differences = ours.iter().zip(&theirs).map(|(a, b)| (a - b).abs());
                // A value that is not a number is as wrong as can be.
                let worst =
                    differences.fold(0f32, |worst, d| if d.is_nan() { f32::INFINITY } else { worst.max(d) });
                largest = largest.max(worst / peak);
            }
            found.differences.push((dtype, largest));
            found.alike &= device.is_batch_invariant();
        }
        Ok(found)
    }

    /// The first weight type that the device does not compute as the CPU does, and the difference.
    pub fn wrong(&self) -> Option<(WeightType, f32)> {
        let bound =
            |dtype: WeightType| TYPES.iter().find(|known| known.0 == dtype).map_or(0.0, |known| known.1);
        self.differences.iter().copied().find(|(dtype, difference)| *difference > bound(*dtype))
    }
}

/// The logits of a text. A `deep` model norms queries and keys, alternates axes, and adds a DeepStack level after its first layer.
fn logits(device: &ComputeDevice, deep: bool) -> Result<Vec<f32>> {
    let tiny = serde_json::json!({
        "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "intermediate_size": 128, "vocab_size": 512, "tie_word_embeddings": true,
    });
    let config = TextConfig {
        mrope_section: deep.then_some([4, 2, 2]),
        interleaved: deep,
        bias: !deep,
        qk_norm: deep,
        deepstack: usize::from(deep),
        ..QWEN2.config(&tiny).map_err(Error::Message)?
    };
    let decoder = Decoder::load(&Checkpoint::random(), &config, device, &mut |_, _| {})
        .map_err(|error| Error::Message(error.to_string()))?;
    let ids: Vec<u32> = (0..TOKENS).map(|i| i * 7919 % config.vocab as u32).collect();
    let (mut cache, mut workspace) = (decoder.cache(ids.len()), Workspace::default());
    let (mut positions, taps) = (Positions::text(0, ids.len()), Taps::default());
    let embeddings = decoder.embed(&ids)?;
    let input = match deep {
        false => embeddings,
        true => {
            positions.axes[1].iter_mut().for_each(|at| *at /= 3);
            let reversed: Vec<usize> = (0..ids.len()).rev().collect();
            decoder.beside(&embeddings, &embeddings.select(&reversed)?)?
        }
    };
    let pass = decoder.forward(&input, &positions, &Mask::Causal, &mut cache, &taps, &mut workspace)?;
    decoder.logits(&pass.states, &mut workspace)?.to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use specreel_tensor::{ComputeDevice, gpu::testing::gpu_or_skip};

    #[test]
    fn a_gpu_and_the_tensors_compute_what_the_cpu_does() {
        let tensors = |dtype| ComputeDevice::tensors(candle_core::Device::Cpu, "tensors", dtype);
        let found = SelfTest::run(&tensors).unwrap();
        assert!(found.wrong().is_none() && !found.alike, "{found:?}");
        let Some(gpu) = gpu_or_skip() else { return };
        let found = SelfTest::run(&|dtype| ComputeDevice::gpu_device(gpu.clone(), dtype)).unwrap();
        assert!(found.wrong().is_none() && found.alike, "{found:?}");
        assert!(found.differences.iter().all(|(_, difference)| *difference > 0.0), "it is another device");
    }

    #[test]
    fn a_difference_beyond_rounding_is_wrong() {
        let found = |difference| SelfTest { alike: true, differences: vec![(WeightType::F32, difference)] };
        assert_eq!(found(1e-5).wrong(), None);
        assert_eq!(found(0.01).wrong(), Some((WeightType::F32, 0.01)));
        assert!(found(f32::INFINITY).wrong().is_some());
    }
}
