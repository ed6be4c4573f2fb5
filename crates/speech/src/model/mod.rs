//! Whisper (Radford et al. 2022, "Robust Speech Recognition via Large-Scale Weak Supervision") over the CPU's kernels.
//!
//! Tensors are named as in Hugging Face's layout. Weights are 16-bit floats, in which the published models were trained, and sums are
//! 32-bit floats. A result has the same bits on any number of threads.

mod config;
mod decoder;
mod encoder;
mod parts;

use specreel_checkpoint::Checkpoint;
use specreel_tensor::{
    KvType, Result, WeightType,
    ops::{CpuOps, Loaded},
};

pub use self::config::Config;
use self::{decoder::Decoder, encoder::Encoder, parts::Tensors};

/// A model, and the window that it hears.
pub struct Whisper {
    encoder: Encoder,
    decoder: Decoder,
}

impl Whisper {
    /// Load the tensors of a checkpoint. Fails if one is missing or has another shape.
    pub fn load(config: &Config, checkpoint: &Checkpoint) -> Loaded<Self> {
        let (ops, tensors) = (CpuOps::new(WeightType::F16, KvType::F32), Tensors(checkpoint));
        Ok(Self {
            encoder: Encoder::load(&ops, config, &tensors)?,
            decoder: Decoder::load(&ops, config, &tensors)?,
        })
    }

    /// Hear a window's spectrogram: `FRAMES × bands`.
    pub fn hear(&mut self, spectrogram: &[f32]) -> Result<()> {
        self.decoder.hear(self.encoder.forward(spectrogram)?)
    }

    /// Begin another text of the window.
    pub fn restart(&mut self) {
        self.decoder.restart();
    }

    /// The logits of what follows each of some tokens, which follow the text so far: `tokens × vocabulary`.
    pub fn next(&mut self, ids: &[u32]) -> Result<Vec<f32>> {
        self.decoder.next(ids)
    }
}

#[cfg(test)]
mod tests;
