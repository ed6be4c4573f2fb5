//! A model's language model once more, in fewer bits: it drafts for the model and shares its vision tower.

use super::{ModelError, VideoLlm, video_llm::kept_on};
use crate::decoder::{Decoder, parts};
use specreel_checkpoint::Checkpoint;
use specreel_tensor::{CheckpointError, WeightType};

impl VideoLlm {
    /// Bytes of the language model's weights in a type.
    pub fn bytes_in(&self, checkpoint: &Checkpoint, dtype: WeightType) -> u64 {
        parts::bytes(self.decoder().config(), dtype, checkpoint.value_bytes("model.embed_tokens.weight"))
    }

    /// The bytes of its matrices in this weight type, without the table of embeddings.
    pub fn matrix_bytes_in(&self, dtype: WeightType) -> u64 {
        parts::bytes(self.decoder().config(), dtype, 0)
    }

    /// The language model of this model's `checkpoint` in another weight type, on the same device.
    pub fn self_draft(&self, checkpoint: &Checkpoint, dtype: WeightType) -> Result<Decoder, ModelError> {
        let device = self.device().with_dtype(dtype);
        if let Some(place) = kept_on(&device) {
            let variant = format!("{}, no tower{place}", dtype.name());
            let expected = self.bytes_in(checkpoint, dtype);
            checkpoint.open_weight_cache(&variant, expected, device.gpu().is_none())?;
        }
        let decoder = Decoder::load(checkpoint, self.decoder().config(), &device, &mut |_, _| {});
        if checkpoint.stopped() {
            return Err(CheckpointError::Stopped.into());
        }
        let decoder = decoder?;
        checkpoint.kept().finish(checkpoint);
        Ok(decoder)
    }
}
