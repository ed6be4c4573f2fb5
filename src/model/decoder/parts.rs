//! The tensors of a decoder: names, shapes, and their size in each weight type.

use crate::model::{
    WeightType,
    checkpoint::{Checkpoint, CheckpointError},
    config::TextConfig,
    device::cpu::{builder::Builder, linear::Linear, table::Values},
};

/// A fused matrix: the rows of some tensors, stacked.
pub(super) struct FusedMatrix {
    /// Names without `.weight`, with their number of rows.
    tensors: Vec<(String, usize)>,
    pub inputs: usize,
    bias: bool,
}

impl FusedMatrix {
    pub fn outputs(&self) -> usize {
        self.tensors.iter().map(|t| t.1).sum()
    }

    /// The name of its first tensor.
    pub fn name(&self) -> &str {
        self.tensors.first().map_or("", |t| &t.0)
    }

    /// All weights as f32, `outputs × inputs`.
    pub fn weights(&self, checkpoint: &Checkpoint) -> Result<Vec<f32>, CheckpointError> {
        let mut weights = Vec::new();
        for (name, rows) in &self.tensors {
            weights.extend(checkpoint.f32(&format!("{name}.weight"), &[*rows, self.inputs])?);
        }
        Ok(weights)
    }

    /// The biases of all tensors, if they have some.
    pub fn biases(&self, checkpoint: &Checkpoint) -> Result<Option<Vec<f32>>, CheckpointError> {
        let mut biases = Vec::new();
        for (name, rows) in self.tensors.iter().filter(|_| self.bias) {
            biases.extend(checkpoint.f32(&format!("{name}.bias"), &[*rows])?);
        }
        Ok(self.bias.then_some(biases))
    }

    /// Load the matrix row by row into a weight type; a matrix of a GGUF file is mapped, and keeps the file's types.
    pub fn load(&self, checkpoint: &Checkpoint, dtype: WeightType) -> Result<Linear, CheckpointError> {
        // Before memory is allocated for sizes that a configuration only claims.
        for (name, rows) in &self.tensors {
            checkpoint.verify(&format!("{name}.weight"), &[*rows, self.inputs])?;
        }
        let mut stored = Vec::new();
        for (name, rows) in &self.tensors {
            match checkpoint.matrix(&format!("{name}.weight"), [*rows, self.inputs])? {
                Some(parts) => stored.extend(parts),
                None => break,
            }
        }
        let (key, outputs, inputs) = (self.name(), self.outputs(), self.inputs);
        let bias = self.biases(checkpoint)?;
        if !stored.is_empty() {
            return Linear::stack(stored, inputs, bias).map_err(|e| CheckpointError::tensor(key, &e));
        }
        let weight = match checkpoint.kept().get(key, outputs, inputs) {
            Some(weight) => weight,
            None => {
                let mut builder = Builder::new(outputs, inputs, dtype);
                let mut sources = Vec::with_capacity(self.tensors.len());
                for (name, rows) in &self.tensors {
                    let name = format!("{name}.weight");
                    let place = builder.append(*rows).map_err(|e| CheckpointError::tensor(&name, &e))?;
                    let hash = checkpoint.rows_parallel(&name, [*rows, inputs], &|first, rows| {
                        // SAFETY: each call has rows of its own.
                        unsafe { place.store(first, rows) }
                    })?;
                    sources.push((name, hash));
                }
                let weight = builder.into_weight();
                checkpoint.kept().put(key, &weight, [outputs, inputs], sources);
                weight
            }
        };
        Linear::stack(vec![(weight, outputs)], inputs, bias).map_err(|e| CheckpointError::tensor(key, &e))
    }
}

/// The embedding table, in the checkpoint's type.
pub(super) fn table(checkpoint: &Checkpoint, c: &TextConfig) -> Result<Values, CheckpointError> {
    const KEY: &str = "table";
    let (name, shape) = ("model.embed_tokens.weight", [c.vocab, c.hidden]);
    checkpoint.verify(name, &shape)?;
    if let Some(values) = checkpoint.kept().get(KEY, c.vocab, c.hidden).and_then(Values::of_weight) {
        return Ok(values);
    }
    let (values, hash) = checkpoint.native(name, shape)?;
    checkpoint.kept().put(KEY, &values.to_weight(), shape, vec![(name.to_owned(), hash)]);
    Ok(values)
}

/// The matrices of a layer: queries, keys and values; output; gate and up; down.
pub(super) fn layer(c: &TextConfig, index: usize) -> [FusedMatrix; 4] {
    let (q, kv) = (c.heads * c.head_dim, c.kv_heads * c.head_dim);
    let matrix = |tensors: &[(&str, usize)], inputs: usize, bias: bool| FusedMatrix {
        tensors: tensors.iter().map(|(name, rows)| (format!("model.layers.{index}.{name}"), *rows)).collect(),
        inputs,
        bias,
    };
    [
        matrix(
            &[("self_attn.q_proj", q), ("self_attn.k_proj", kv), ("self_attn.v_proj", kv)],
            c.hidden,
            true,
        ),
        matrix(&[("self_attn.o_proj", c.hidden)], q, false),
        matrix(&[("mlp.gate_proj", c.intermediate), ("mlp.up_proj", c.intermediate)], c.hidden, false),
        matrix(&[("mlp.down_proj", c.hidden)], c.intermediate, false),
    ]
}

/// The head; the embedding table if they are tied.
pub(super) fn head(c: &TextConfig) -> FusedMatrix {
    let name = if c.tied { "model.embed_tokens" } else { "lm_head" };
    FusedMatrix { tensors: vec![(name.to_owned(), c.vocab)], inputs: c.hidden, bias: false }
}

/// All tensors that [`super::Decoder::load`] reads, by their original names.
pub fn tensors(c: &TextConfig) -> Vec<(String, Vec<usize>)> {
    let mut all = vec![("model.embed_tokens.weight".to_owned(), vec![c.vocab, c.hidden])];
    for index in 0..c.layers {
        for norm in ["input_layernorm", "post_attention_layernorm"] {
            all.push((format!("model.layers.{index}.{norm}.weight"), vec![c.hidden]));
        }
        for matrix in layer(c, index) {
            for (name, rows) in &matrix.tensors {
                all.push((format!("{name}.weight"), vec![*rows, matrix.inputs]));
                if matrix.bias {
                    all.push((format!("{name}.bias"), vec![*rows]));
                }
            }
        }
    }
    all.push(("model.norm.weight".to_owned(), vec![c.hidden]));
    if !c.tied {
        all.push(("lm_head.weight".to_owned(), vec![c.vocab, c.hidden]));
    }
    all
}

/// Bytes of the loaded weights in a type; the embedding table has `table` bytes a value, as in the checkpoint.
pub fn bytes(c: &TextConfig, dtype: WeightType, table: usize) -> u64 {
    let of = |matrix: &FusedMatrix| Linear::bytes_of(matrix.outputs(), matrix.inputs, dtype) as u64;
    let layers: u64 = c.layers as u64 * layer(c, 0).iter().map(of).sum::<u64>();
    layers + of(&head(c)) + (c.vocab * c.hidden * table) as u64
}

/// The fallback of a type whose blocks do not divide some row: the type, and the row's width.
pub fn fallback(c: &TextConfig, dtype: WeightType) -> Option<(WeightType, usize)> {
    let widths = [c.hidden, c.heads * c.head_dim, c.intermediate];
    let odd =
        widths.into_iter().find(|&inputs| dtype != WeightType::Auto && dtype.fitting(inputs) != dtype)?;
    Some((dtype.fitting(odd), odd))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ComputeDevice, config::VlConfig, decoder::Decoder};

    fn fixture(name: &str) -> (Checkpoint, TextConfig) {
        let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/parity/fixtures").join(name);
        (Checkpoint::open(&dir).unwrap(), VlConfig::read(&dir).unwrap().text)
    }

    #[test]
    fn all_tensors_but_those_of_the_tower_are_listed() {
        for name in ["gqa_tied", "gqa_untied_f16", "nested_bf16", "sharded_untied"] {
            let (checkpoint, config) = fixture(name);
            let listed = tensors(&config);
            for (tensor, shape) in &listed {
                checkpoint.verify(tensor, shape).unwrap();
            }
            let text = checkpoint.tensors().filter(|tensor| !tensor.name.contains("visual"));
            assert_eq!(text.count(), listed.len(), "{name}");
        }
    }

    #[test]
    fn bytes_predicts_the_size_of_the_loaded_weights() {
        for (name, table) in [("gqa_tied", 4), ("gqa_untied_f16", 2), ("mha_tied_bf16", 2)] {
            let (checkpoint, config) = fixture(name);
            for dtype in WeightType::ALL {
                let loaded =
                    Decoder::load(&checkpoint, &config, &ComputeDevice::cpu(dtype), &mut |_, _| {}).unwrap();
                assert_eq!(loaded.bytes() as u64, bytes(&config, dtype, table), "{name} {dtype:?}");
            }
        }
    }
}
