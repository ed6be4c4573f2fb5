//! What a head begins training with: random and given values of its tensors, and the target's tables that it shares.

use std::collections::BTreeMap;

use candle_core::{Device, Tensor, Var};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use specreel_checkpoint::Checkpoint;
use specreel_model::config::TextConfig;
use specreel_tensor::{CheckpointError, Weights, convolution::ConvolutionShape};

type Result<T> = std::result::Result<T, CheckpointError>;

fn failed(error: candle_core::Error) -> CheckpointError {
    CheckpointError::tensor("model.layers.0", &error.to_string())
}

/// The first values of a head's tensors, as (name, values, shape).
pub(crate) struct FirstValues {
    rng: ChaCha8Rng,
    tensors: Vec<(String, Vec<f32>, Vec<usize>)>,
}

impl FirstValues {
    pub fn new(seed: u64) -> Self {
        Self { rng: ChaCha8Rng::seed_from_u64(seed), tensors: Vec::new() }
    }

    pub fn given(&mut self, name: &str, values: Vec<f32>, shape: Vec<usize>) {
        self.tensors.push((name.to_owned(), values, shape));
    }

    fn drawn(&mut self, count: usize, inputs: usize) -> Vec<f32> {
        let bound = 1.0 / (inputs as f32).sqrt();
        (0..count).map(|_| (self.rng.random::<f32>() * 2.0 - 1.0) * bound).collect()
    }

    /// A matrix of so many rows, random like torch's linear layers.
    pub fn matrix(&mut self, name: &str, rows: usize, inputs: usize) {
        let values = self.drawn(rows * inputs, inputs);
        self.given(&format!("{name}.weight"), values, vec![rows, inputs]);
    }

    /// The projections of a layer, whose queries, keys and values are computed from so many inputs.
    pub fn layer(&mut self, layer: usize, config: &TextConfig, inputs: usize) {
        let c = config;
        let (d, q, kv) = (c.hidden, c.heads * c.head_dim, c.kv_heads * c.head_dim);
        for (part, rows, inputs) in [
            ("self_attn.q_proj", q, inputs),
            ("self_attn.k_proj", kv, inputs),
            ("self_attn.v_proj", kv, inputs),
            ("self_attn.o_proj", d, q),
            ("mlp.gate_proj", c.intermediate, d),
            ("mlp.up_proj", c.intermediate, d),
            ("mlp.down_proj", d, c.intermediate),
        ] {
            self.matrix(&format!("model.layers.{layer}.{part}"), rows, inputs);
        }
    }

    /// The convolutions around a sublayer: at first every row is left as it is.
    pub fn convolution(&mut self, name: &str, shape: ConvolutionShape, width: usize) {
        let one_side = [vec![1.0; width], vec![0.0; (shape.taps - 1) * width]].concat();
        self.given(&format!("{name}.base_kernel"), one_side.repeat(2), vec![2, shape.taps, width]);
        let corrections = shape.corrections(width);
        let zeros = vec![0.0; corrections * width];
        self.given(&format!("{name}.kernel_projection.weight"), zeros, vec![corrections, width]);
    }

    /// A selector for a vocabulary, which at first prefers no candidate.
    pub fn selector(&mut self, rank: usize, vocab: usize, width: usize) {
        const NAME: &str = "candidate_selector";
        self.matrix(&format!("{NAME}.hidden_projection"), rank, width);
        let predecessors = self.drawn(vocab * rank, 1);
        self.given(&format!("{NAME}.predecessor_codebook"), predecessors, vec![vocab, rank]);
        self.given(&format!("{NAME}.successor_codebook"), vec![0.0; vocab * rank], vec![vocab, rank]);
    }

    /// The biases of a matrix.
    pub fn biases(&mut self, name: &str, rows: usize, inputs: usize) {
        let values = self.drawn(rows, inputs);
        self.given(&format!("{name}.bias"), values, vec![rows]);
    }

    /// A norm of ones.
    pub fn norm(&mut self, name: &str, width: usize) {
        self.given(&format!("{name}.weight"), vec![1.0; width], vec![width]);
    }

    /// The target's last norm, before its LM head. Fails if the checkpoint lacks it.
    pub fn last_norm(&mut self, target: &Checkpoint, config: &TextConfig) -> Result<()> {
        const NAME: &str = "model.norm.weight";
        let mut values = target.f32(NAME, &[config.hidden])?;
        if config.norm_offset {
            values.iter_mut().for_each(|value| *value += 1.0);
        }
        self.given(NAME, values, vec![config.hidden]);
        Ok(())
    }

    /// The trainable variables, sorted by name.
    pub fn vars(self) -> Result<BTreeMap<String, Var>> {
        let vars = self.tensors.into_iter().map(|(name, values, shape)| {
            let made = Tensor::from_vec(values, shape, &Device::Cpu).and_then(|t| Var::from_tensor(&t));
            made.map(|var| (name, var)).map_err(failed)
        });
        vars.collect()
    }
}

/// The target's tables, which are not trained, `vocab × width` each.
pub(crate) struct Tables {
    pub embeddings: Tensor,
    /// Of the LM head.
    pub head: Tensor,
}

impl Tables {
    /// Fails if the checkpoint lacks one of them.
    pub fn of(target: &Checkpoint, config: &TextConfig) -> Result<Self> {
        let (vocab, width) = (config.vocab, config.hidden);
        let read = |name: &str| {
            let values = target.f32(name, &[vocab, width])?;
            Tensor::from_vec(values, (vocab, width), &Device::Cpu).map_err(failed)
        };
        let embeddings = read("model.embed_tokens.weight")?;
        let head = if config.tied { embeddings.clone() } else { read("lm_head.weight")? };
        Ok(Self { embeddings, head })
    }
}
