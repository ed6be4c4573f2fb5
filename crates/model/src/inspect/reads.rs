//! What the passes of a language model read, from the headers of its files: the time of a row is mostly the time of reading them.

use std::collections::HashMap;

use super::facts;
use crate::{ReadModel as _, config::TextConfig, decoder::parts, family::ModelError};
use specreel_checkpoint::{ModelFiles, StoredTensor};
use specreel_tensor::{ComputeDevice, WeightType, fused::FusedMatrix};

/// The sizes of a language model's matrices as a device will hold them.
pub struct Reads {
    text: TextConfig,
    /// The type of matrices that are converted.
    dtype: WeightType,
    /// Bytes of the tensors that are used as a GGUF file has them.
    stored: HashMap<String, usize>,
    on_gpu: bool,
    /// Rows of the head.
    logits: usize,
}

impl Reads {
    /// Of a model's files on a device. Matrices of GGUF files keep their types, unless they are `requantized`.
    pub fn of(files: &ModelFiles, device: &ComputeDevice, requantized: bool) -> Result<Self, ModelError> {
        let text = files.config()?.text;
        let on_gpu = device.gpu().is_some();
        let stored = match files.gguf().filter(|_| !requantized && device.is_batch_invariant()) {
            None => HashMap::new(),
            Some(_) => {
                let checkpoint = files.checkpoint()?;
                let matrices = checkpoint.tensors().filter(|tensor| tensor.shape.len() > 1);
                let size = |tensor: &StoredTensor<'_>| match on_gpu {
                    true => facts::on_gpu(tensor),
                    false => tensor.bytes,
                };
                matrices.map(|tensor| (tensor.name.to_owned(), size(&tensor) as usize)).collect()
            }
        };
        let logits = text.vocab;
        Ok(Self { text, dtype: device.dtype(), stored, on_gpu, logits })
    }

    /// Of a language model on a CPU whose matrices are all converted to a type.
    pub fn converted(text: &TextConfig, dtype: WeightType) -> Self {
        Self { logits: text.vocab, text: text.clone(), dtype, stored: HashMap::new(), on_gpu: false }
    }

    /// The same with a head for the first `size` ids and those that end a text (see
    /// [`VideoLlm::with_vocabulary`](crate::family::VideoLlm::with_vocabulary)). Fails if the tokenizer cannot be read.
    pub fn with_vocabulary(self, files: &ModelFiles, size: usize) -> Result<Self, ModelError> {
        let tokenizer = files.tokenizer()?;
        if size >= tokenizer.vocabulary() {
            return Ok(self);
        }
        let mut ends: Vec<u32> =
            tokenizer.end_ids().iter().copied().filter(|id| *id as usize >= size).collect();
        ends.sort_unstable();
        ends.dedup();
        Ok(Self { logits: size + ends.len(), ..self })
    }

    /// The sizes of the language model.
    pub fn config(&self) -> &TextConfig {
        &self.text
    }

    /// Bytes of the matrices that a pass of `rows` rows and its logits read; of a mixture of experts, what independent rows read on
    /// average.
    pub fn pass_bytes(&self, rows: usize) -> usize {
        let is_short = self.logits != self.text.vocab;
        let head = parts::head(&self.text);
        parts::pass_bytes(&self.text, self.logits, rows, |matrix| match self.stored_bytes(matrix) {
            // A shorter head is made of converted rows.
            Some(bytes) if !(is_short && matrix.name() == head.name()) => bytes,
            _ => self.converted_bytes(matrix),
        })
    }

    fn stored_bytes(&self, matrix: &FusedMatrix) -> Option<usize> {
        let bytes = |(name, _): &(String, usize)| self.stored.get(&format!("{name}.weight")).copied();
        matrix.tensors.iter().map(bytes).sum()
    }

    fn converted_bytes(&self, matrix: &FusedMatrix) -> usize {
        if !self.on_gpu {
            return matrix.bytes(self.dtype);
        }
        let kind = self.dtype.kept(matrix.importance).fitting(matrix.inputs);
        kind.bytes_on_gpu(matrix.outputs(), matrix.inputs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{family::VideoLlm, testing::fixture};
    use specreel_tensor::WeightType;

    /// Rows of the passes that are compared: one, and as many as experts are reckoned with.
    const ROWS: [usize; 2] = [1, 5];

    fn agree(place: &str, dtype: WeightType, vocabulary: Option<usize>) {
        let files = ModelFiles::open(&fixture(place), None).unwrap();
        let device = ComputeDevice::cpu(dtype);
        let (mut reads, mut loaded) = (
            Reads::of(&files, &device, false).unwrap(),
            VideoLlm::load(files.path(), dtype, &mut |_, _| {}).unwrap(),
        );
        if let Some(size) = vocabulary {
            reads = reads.with_vocabulary(&files, size).unwrap();
            loaded = loaded.with_vocabulary(&files.checkpoint().unwrap(), size).unwrap();
        }
        let found = ROWS.map(|rows| reads.pass_bytes(rows));
        assert_eq!(found, ROWS.map(|rows| loaded.decoder().pass_bytes(rows)), "{place} {dtype:?}");
    }

    #[test]
    fn files_say_what_passes_of_the_loaded_model_read() {
        for name in ["gqa_tied", "gqa_untied_f16", "qwen3_vl_moe", "qwen3_5_moe", "smolvlm", "minicpmv4_6"] {
            for dtype in [WeightType::F32, WeightType::Q8_0, WeightType::Q4K] {
                agree(name, dtype, None);
            }
            agree(name, WeightType::Q8_0, Some(40));
        }
    }

    #[test]
    fn matrices_of_gguf_files_are_read_as_they_are_stored() {
        for file in [
            "gqa_tied/model-q4_0",
            "gqa_tied/model-f16",
            "mix/model-q4_k_m",
            "qwen3_5/model-q8_0",
            "qwen3_vl_moe/model-q8_0",
            "smolvlm/model-q8_0",
            "gemma4/model-q8_0",
        ] {
            agree(&format!("gguf/{file}.gguf"), WeightType::Auto, None);
            agree(&format!("gguf/{file}.gguf"), WeightType::Auto, Some(40));
        }
    }
}
